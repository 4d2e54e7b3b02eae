//! Conditions on a forecast: `p90(wait) <= 2h`.

use std::fmt;
use std::str::FromStr;

use sandtable_core::units;
use sandtable_results::forecast::{Forecast, quantile};

/// A condition on a quantile.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    text: String,
    share: f64,
    of: Moment,
    compare: Compare,
    bound_s: f64,
}

#[derive(Clone, Copy, Debug)]
enum Moment {
    Start,
    Wait,
    End,
}

#[derive(Clone, Copy, Debug)]
enum Compare {
    Less,
    AtMost,
    More,
    AtLeast,
}

const MOMENTS: [(&str, Moment); 3] = [("start", Moment::Start), ("wait", Moment::Wait), ("end", Moment::End)];
/// The longer ones first: one begins as another does.
const COMPARES: [(&str, Compare); 4] =
    [("<=", Compare::AtMost), (">=", Compare::AtLeast), ("<", Compare::Less), (">", Compare::More)];

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Check, String> {
        let wrong =
            || format!("expected a condition such as \"p90(wait) <= 2h\" of start, wait or end, found {text:?}");
        let (sign, compare) = COMPARES.iter().find(|(sign, _)| text.contains(sign)).ok_or_else(wrong)?;
        let (left, right) = text.split_once(sign).ok_or_else(wrong)?;
        let (percent, of) = left.trim().strip_suffix(')').and_then(|left| left.split_once('(')).ok_or_else(wrong)?;
        let percent: f64 = percent.trim().strip_prefix('p').and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
        if !(percent > 0.0 && percent <= 100.0) {
            return Err(format!("expected a percentile above 0 and at most 100, found {percent}"));
        }
        let (_, of) = MOMENTS.iter().find(|(name, _)| *name == of.trim()).ok_or_else(wrong)?;
        let bound_s = units::span(right.trim())?.as_secs_f64();
        Ok(Check { text: text.to_string(), share: percent / 100.0, of: *of, compare: *compare, bound_s })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Check {
    /// The value of a job, seconds, that could have started since some time, seconds from now on; none of the latter: it runs.
    pub(super) fn value(&self, of: &Forecast, eligible_s: Option<f64>) -> Option<f64> {
        match self.of {
            Moment::Start => eligible_s.and_then(|_| quantile(&of.starts, self.share)),
            Moment::Wait => Some(quantile(&of.starts, self.share)? - eligible_s?),
            Moment::End => quantile(&of.ends, self.share),
        }
    }

    pub(super) fn holds(&self, value: f64) -> bool {
        match self.compare {
            Compare::Less => value < self.bound_s,
            Compare::AtMost => value <= self.bound_s,
            Compare::More => value > self.bound_s,
            Compare::AtLeast => value >= self.bound_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_of_quantiles() {
        let forecast =
            Forecast { starts: vec![10.0, 20.0, f64::INFINITY], ends: vec![30.0, 40.0, 50.0], ..Forecast::default() };
        let holds = |text: &str| {
            let check: Check = text.parse().expect("a condition");
            check.holds(check.value(&forecast, Some(-100.0)).expect("a value"))
        };
        assert!(holds("p50(start) <= 20s") && !holds("p50(start)<20s") && !holds("p90(start) <= 9d"));
        assert!(holds("p10(wait) >= 110s") && holds(" p100 ( end )  <  1min "));
        for wrong in
            ["p90(wait)", "90(wait) <= 2h", "p0(wait) <= 2h", "p90(weight) <= 2h", "p90(wait) <= 2", "wait <= 2h"]
        {
            assert!(wrong.parse::<Check>().is_err(), "{wrong}");
        }
    }
}
