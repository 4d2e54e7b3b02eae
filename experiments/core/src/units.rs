//! Quantities with units, as people write them: "90s", "30min", "1.5h", "128MiB".

use serde::{Deserialize, Deserializer, de};

use sandtable_hardware::Duration;

/// A span of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub struct Span(pub Duration);

const UNITS: [(&str, u64); 7] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
    ("w", 604_800_000_000),
];

/// Reads a time such as "90s".
///
/// ```
/// assert_eq!(sandtable_core::units::span("1.5h"), Ok(5400 * sandtable_hardware::SECOND));
/// assert!(sandtable_core::units::span("90").is_err());
/// ```
///
/// # Errors
/// What was expected.
pub fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a time such as \"90s\", \"30min\", \"1.5h\" or \"2d\", found {text:?}");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = (text[..split].trim(), text[split..].trim());
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    decimal(number, *scale).map(Duration::from_micros).ok_or_else(wrong)
}

/// Returns a decimal number times `scale`, rounded down; `None` for anything else, or from 2^53 on, the limit of what a user may write.
pub fn decimal(text: &str, scale: u64) -> Option<u64> {
    scaled(text, scale).filter(|value| *value < 1 << 53)
}

/// Returns a decimal number times `scale`, up to [`u64::MAX`]; `None` for anything else, or where it would have to be rounded.
/// Times that a run computes may be beyond what a user may write: they are read with this.
pub fn exact_decimal(text: &str, scale: u64) -> Option<u64> {
    scaled(text, scale).filter(|_| is_exact(text, scale))
}

fn scaled(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if (whole.is_empty() && part.is_empty()) || !text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = &part[..part.len().min(15)];
    let parts: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let scale = u128::from(scale);
    let value = whole.checked_mul(scale)?.checked_add(parts * scale / 10u128.pow(digits.len() as u32))?;
    u64::try_from(value).ok()
}

/// Whether [`decimal`] rounds nothing away.
pub fn is_exact(text: &str, scale: u64) -> bool {
    let part = text.split_once('.').map_or("", |(_, part)| part).trim_end_matches('0');
    let Ok(digits) = u32::try_from(part.len()) else { return false };
    let Some(tenth) = 10u128.checked_pow(digits) else { return false };
    // What `scale` takes out of the denominator: their product may be beyond any number.
    let (mut common, mut rest) = (tenth, u128::from(scale));
    while rest > 0 {
        (common, rest) = (rest, common % rest);
    }
    part.is_empty() || part.parse::<u128>().is_ok_and(|parts| parts.is_multiple_of(tenth / common))
}

/// Reads "128MiB".
///
/// # Errors
/// What was expected.
pub fn bytes(text: &str) -> Result<usize, String> {
    let wrong = || format!("expected a size such as \"128MiB\", found {text:?}");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let scale = match text[split..].trim() {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        "TiB" => 1 << 40,
        _ => return Err(wrong()),
    };
    decimal(text[..split].trim(), scale).map(|bytes| bytes as usize).ok_or_else(wrong)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        span(&text).map(Span).map_err(de::Error::custom)
    }
}

/// A size in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        bytes(&text).map(Bytes).map_err(de::Error::custom)
    }
}

/// A text with a unit.
fn text(pattern: &str, about: &str) -> schemars::Schema {
    schemars::json_schema!({"type": "string", "pattern": pattern, "description": about})
}

impl schemars::JsonSchema for Span {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        text(r"^[0-9.]+ *(us|ms|s|min|h|d|w)$", "A span of time: \"90s\", \"30min\", \"1.5h\", \"2d\".")
    }
}

impl schemars::JsonSchema for Bytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        text(r"^[0-9.]+ *(B|KiB|MiB|GiB|TiB)$", "A size in memory: \"128MiB\".")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_digits_are_no_overflow() {
        assert!(!is_exact(".1001111111111111111111111111111111", 1_000_000));
        assert_eq!(exact_decimal("18446744073709.551615", 1_000_000), Some(u64::MAX));
        assert_eq!(exact_decimal("18446744073709.551616", 1_000_000), None);
        assert_eq!((exact_decimal("0.0000001", 1_000_000), decimal("9007199255", 1_000_000)), (None, None));
        assert!(is_exact("0.5", 2) && is_exact("1.000001", 1_000_000) && !is_exact("1.0000001", 1_000_000));
        assert!(is_exact("3", 1) && is_exact("3.000000000000000000000000000000000000000000", 1));
    }

    #[test]
    fn spans() {
        assert_eq!(span("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(span("1.5 h"), Ok(Duration::from_secs(5400)));
        assert_eq!(span("0.000001s"), Ok(Duration::from_micros(1)));
        assert!(span("90").is_err() && span("s").is_err() && span("-1s").is_err() && span("1e3s").is_err());
        assert!(span("1000000w").is_err(), "beyond 2^53 µs");
    }

    #[test]
    fn sizes() {
        assert_eq!(bytes("128MiB"), Ok(128 << 20));
        assert!(bytes("128").is_err());
    }
}
