//! Digests, and the canonical JSON that they are of: sorted keys, no white space, shortest round-trip decimals, whole
//! numbers without a fraction.
//!
//! The JSON is written by hand since `serde_json` keeps another order as soon as any dependency switches a feature on.

use serde_json::Value;

/// The blake3 digest of some bytes, as 64 hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The blake3 digest of some bytes under a secret and a context, as 64 hexadecimal digits: without the secret no digest can be guessed.
pub fn keyed(context: &str, secret: &[u8], bytes: &[u8]) -> String {
    blake3::keyed_hash(&blake3::derive_key(context, secret), bytes).to_hex().to_string()
}

/// The canonical text.
///
/// ```
/// let value = serde_json::json!({"b": 1.0, "a": [0.1, null]});
/// assert_eq!(sandtable_core::digest::canonical(&value), r#"{"a":[0.1,null],"b":1}"#);
/// ```
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(list) => {
            out.push('[');
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        // 2.0 and 2 are one number; -0 is 0. Beyond 2^53 a float is not the integer that it prints as.
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
                out.push_str(&(float as i64).to_string());
            }
            _ => out.push_str(&number.to_string()),
        },
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_one_text() {
        let value: Value =
            serde_json::from_str(r#"{"b": [2.0, -0.0, 0.1, 1e300], "a": {"z": null, "y": "é\n"}}"#).unwrap();
        assert_eq!(canonical(&value), r#"{"a":{"y":"é\n","z":null},"b":[2,0,0.1,1e+300]}"#);
    }
}
