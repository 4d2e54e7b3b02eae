//! Documents as they are written.

use serde_json::Value;

/// Without what is unknown: nulls, and empty lists but for those that every document has.
pub(super) fn lean(mut document: Value) -> Value {
    fn without(value: &mut Value, top: bool) {
        match value {
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| without(value, false));
                fields.retain(|_, value| !(value.is_null() || !top && value.as_array().is_some_and(Vec::is_empty)));
            }
            Value::Array(values) => values.iter_mut().for_each(|value| without(value, false)),
            Value::Number(number) => {
                // Whole seconds are written as such.
                let whole = number.as_f64().filter(|number| *number == libm::trunc(*number) && number.abs() < 9e15);
                if let Some(whole) = whole {
                    *value = (whole as i64).into();
                }
            }
            _ => {}
        }
    }
    without(&mut document, true);
    document
}
