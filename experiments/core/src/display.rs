//! Units of values, and values as people read them.

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds; people read minutes, hours and days.
    Seconds,
    /// A part of a whole, 0 to 1; people read per cent.
    Share,
    /// How many times as much.
    Times,
    /// How many.
    Count,
    /// GPUs times hours.
    GpuHours,
}

impl Unit {
    /// What CSV and JSON have the value in.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Seconds => "s",
            Unit::Share => "0 to 1",
            Unit::Times => "ratio",
            Unit::Count => "count",
            Unit::GpuHours => "GPU-h",
        }
    }

    /// A value for people.
    ///
    /// ```
    /// use sandtable_core::display::Unit;
    ///
    /// assert_eq!(Unit::Seconds.text(5400.0), "90.0 min");
    /// assert_eq!(Unit::Share.text(0.388), "38.8 %");
    /// ```
    pub fn text(self, x: f64) -> String {
        match self {
            Unit::Seconds => span(x),
            Unit::Share => percent(x, false),
            Unit::Times => format!("{:.2}", unsigned_zero(x, 2)),
            Unit::Count => format!("{:.0}", unsigned_zero(x, 0)),
            Unit::GpuHours => format!("{:.*} GPU-h", small_digits(x), x),
        }
    }

    /// A mean and the half of its interval for people, in one unit.
    pub fn interval(self, mean: f64, half: f64) -> String {
        match self {
            Unit::Seconds => {
                let (scale, unit) = scale(mean);
                let digits = digits(mean / scale);
                format!("{:.digits$} ± {:.digits$} {unit}", mean / scale, half / scale)
            }
            Unit::Share => format!("{:.1} ± {:.1} %", unsigned_zero(100.0 * mean, 1), 100.0 * half),
            Unit::Times => format!("{:.2} ± {half:.2}", unsigned_zero(mean, 2)),
            Unit::Count => format!("{:.1} ± {half:.1}", unsigned_zero(mean, 1)),
            Unit::GpuHours => {
                let digits = small_digits(mean);
                format!("{mean:.digits$} ± {half:.digits$} GPU-h")
            }
        }
    }
}

/// A part for people, in per cent to one digit; with its sign where it is a change.
pub fn percent(x: f64, signed: bool) -> String {
    let x = unsigned_zero(100.0 * x, 1);
    // What is no change has no direction.
    if signed && x != 0.0 { format!("{x:+.1} %") } else { format!("{x:.1} %") }
}

/// 0 for what so many digits print as 0: there is no "-0.0".
pub fn unsigned_zero(x: f64, digits: u32) -> f64 {
    if x.abs() * f64::from(10u32.pow(digits)) < 0.5 { 0.0 } else { x }
}

fn scale(seconds: f64) -> (f64, &'static str) {
    match seconds.abs() {
        s if s < 120.0 => (1.0, "s"),
        s if s < 7_200.0 => (60.0, "min"),
        s if s < 172_800.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    }
}

/// Digits behind the point of a number that may be small, and is no less than 0.
fn small_digits(value: f64) -> usize {
    if value >= 10.0 || value == 0.0 {
        1
    } else if value >= 0.1 {
        2
    } else {
        4
    }
}

fn digits(value: f64) -> usize {
    if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) }
}

/// A time for people: three digits and a unit.
pub fn span(seconds: f64) -> String {
    let (scale, unit) = scale(seconds);
    let value = seconds / scale;
    let digits = digits(value);
    format!("{:.digits$} {unit}", unsigned_zero(value, digits as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_in_their_unit() {
        assert_eq!(Unit::Share.text(0.388), "38.8 %");
        assert_eq!(Unit::Times.text(0.977), "0.98");
        assert_eq!(Unit::Count.text(17.0), "17");
        assert_eq!(Unit::Seconds.interval(2496.0, 126.0), "41.6 ± 2.1 min");
        assert_eq!(Unit::Seconds.text(-30.0), "-30.0 s");
    }

    #[test]
    fn nothing_has_no_sign() {
        assert_eq!(percent(-0.0004, true), "0.0 %");
        assert_eq!(percent(-0.0006, true), "-0.1 %");
        assert_eq!(percent(0.012, true), "+1.2 %");
        assert_eq!(Unit::Times.text(-0.001), "0.00");
        assert_eq!(
            [7853.2, 4.25, 0.0139, 0.0].map(|x| Unit::GpuHours.text(x)),
            ["7853.2 GPU-h", "4.25 GPU-h", "0.0139 GPU-h", "0.0 GPU-h"]
        );
        assert_eq!(Unit::Count.text(-0.2), "0");
        assert_eq!(span(-0.001), "0.00 s");
    }
}
