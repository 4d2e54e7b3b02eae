//! A policy's parameters as a table: schema, defaults and refusals all come from it.

use serde_json::Value;

/// What a parameter may hold.
#[derive(Clone, Copy)]
pub enum Kind {
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A number in `[min, max]`.
    Number {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
    },
    /// Numbers, each in `[min, max]`, in ascending order.
    Ascending {
        /// Minimum.
        min: f64,
        /// Maximum.
        max: f64,
    },
    /// true or false.
    Flag,
    /// Any text.
    Text,
    /// Any JSON.
    Any,
}

/// One parameter.
#[derive(Clone, Copy)]
pub struct Param {
    /// Its key in the configuration.
    pub name: &'static str,
    /// What it may hold.
    pub kind: Kind,
    /// Its default, as JSON.
    pub default: &'static str,
    /// One sentence, with the unit.
    pub about: &'static str,
}

/// A checked configuration: every parameter has a value of its kind.
pub struct Config(Vec<(&'static str, Value)>);

impl Config {
    /// Reads a JSON object against the table.
    ///
    /// ```
    /// use sandtable_policy::{Config, Kind, Param};
    ///
    /// const PARAMS: &[Param] = &[Param {
    ///     name: "patience",
    ///     kind: Kind::Number { min: 0.0, max: 86_400.0 },
    ///     default: "3600",
    ///     about: "Seconds that the head of the queue waits before a node is reserved for it.",
    /// }];
    /// let config = Config::parse("{}", PARAMS).expect("the default is valid");
    /// assert_eq!((config.number("patience"), config.micros("patience")), (3600.0, 3_600_000_000));
    /// let why = Config::parse("{\"patience\": -1}", PARAMS).err();
    /// assert_eq!(why.as_deref(), Some("`patience`: expected a number from 0 to 86400, found -1"));
    /// ```
    ///
    /// # Errors
    /// One line that names the parameter, what was found and what was expected.
    pub fn parse(text: &str, params: &'static [Param]) -> Result<Config, String> {
        let given: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let Value::Object(given) = given else {
            return Err(format!("expected an object of parameters, found {given}"));
        };
        for key in given.keys() {
            if !params.iter().any(|param| param.name == key) {
                let known: Vec<_> = params.iter().map(|param| param.name).collect();
                let known =
                    if known.is_empty() { "it has none".into() } else { format!("it has {}", known.join(", ")) };
                return Err(format!("no parameter `{key}`: {known}"));
            }
        }
        let mut values = Vec::new();
        for param in params {
            let value = match given.get(param.name) {
                Some(value) => value.clone(),
                None => serde_json::from_str(param.default)
                    .map_err(|error| format!("default of {}: {error}", param.name))?,
            };
            if !fits(&value, param.kind) {
                return Err(format!("`{}`: expected {}, found {value}", param.name, expected(param.kind)));
            }
            values.push((param.name, value));
        }
        Ok(Config(values))
    }

    fn value(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("the policy asks for `{name}`, which its table lacks")).1
    }

    /// The word of a [`Kind::Choice`].
    pub fn choice(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// The value of a [`Kind::Number`].
    pub fn number(&self, name: &str) -> f64 {
        self.value(name).as_f64().unwrap_or(f64::NAN)
    }

    /// The values of a [`Kind::Ascending`].
    pub fn numbers(&self, name: &str) -> Vec<f64> {
        self.value(name).as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
    }

    /// The value of a [`Kind::Flag`].
    pub fn flag(&self, name: &str) -> bool {
        self.value(name).as_bool().unwrap_or_default()
    }

    /// The text of a [`Kind::Text`].
    pub fn text(&self, name: &str) -> &str {
        self.value(name).as_str().unwrap_or_default()
    }

    /// The value of a [`Kind::Any`].
    pub fn any(&self, name: &str) -> &Value {
        self.value(name)
    }

    /// A number of seconds as microseconds, to the nearest.
    pub fn micros(&self, name: &str) -> u64 {
        (self.number(name) * 1e6 + 0.5) as u64
    }
}

fn fits(value: &Value, kind: Kind) -> bool {
    let within = |value: &Value, min: f64, max: f64| value.as_f64().is_some_and(|x| min <= x && x <= max);
    match kind {
        Kind::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        Kind::Number { min, max } => within(value, min, max),
        Kind::Ascending { min, max } => value.as_array().is_some_and(|list| {
            list.iter().all(|x| within(x, min, max)) && list.windows(2).all(|pair| pair[0].as_f64() <= pair[1].as_f64())
        }),
        Kind::Flag => value.is_boolean(),
        Kind::Text => value.is_string(),
        Kind::Any => true,
    }
}

fn bound(x: f64) -> String {
    if x.abs() >= 1e15 { "any".into() } else { format!("{x}") }
}

fn expected(kind: Kind) -> String {
    match kind {
        Kind::Choice(words) => format!("one of \"{}\"", words.join("\", \"")),
        Kind::Number { min, max } => format!("a number from {} to {}", bound(min), bound(max)),
        Kind::Ascending { min, max } => format!("a list of ascending numbers from {} to {}", bound(min), bound(max)),
        Kind::Flag => "true or false".into(),
        Kind::Text => "text".into(),
        Kind::Any => "anything".into(),
    }
}

/// The JSON Schema of a table.
pub(crate) fn schema(params: &[Param]) -> String {
    let mut out = String::from("{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{");
    for (index, param) in params.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        let kind = match param.kind {
            Kind::Choice(words) => format!("\"enum\":[\"{}\"]", words.join("\",\"")),
            Kind::Number { min, max } => format!("\"type\":\"number\",\"minimum\":{min},\"maximum\":{max}"),
            Kind::Ascending { min, max } => {
                format!("\"type\":\"array\",\"items\":{{\"type\":\"number\",\"minimum\":{min},\"maximum\":{max}}}")
            }
            Kind::Flag => "\"type\":\"boolean\"".into(),
            Kind::Text => "\"type\":\"string\"".into(),
            Kind::Any => String::new(),
        };
        let about = Value::from(param.about);
        let comma = if kind.is_empty() { "" } else { "," };
        out.push_str(&format!(
            "\"{}\":{{{kind}{comma}\"default\":{},\"description\":{about}}}",
            param.name, param.default
        ));
    }
    out.push_str("}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Param] = &[
        Param { name: "mode", kind: Kind::Choice(&["a", "b"]), default: "\"a\"", about: "A mode." },
        Param { name: "knob", kind: Kind::Number { min: 0.0, max: 9.0 }, default: "1.5", about: "A \"knob\", in s." },
        Param { name: "limits", kind: Kind::Ascending { min: 0.0, max: 1e15 }, default: "[1, 2]", about: "Limits." },
        Param { name: "flag", kind: Kind::Flag, default: "false", about: "A flag." },
    ];

    #[test]
    fn defaults_fill_in() {
        let config = Config::parse("{\"mode\": \"b\"}", TABLE).unwrap();
        assert_eq!(config.choice("mode"), "b");
        assert_eq!(config.micros("knob"), 1_500_000);
        assert_eq!(config.numbers("limits"), [1.0, 2.0]);
        assert!(!config.flag("flag"));
    }

    #[test]
    fn refusals_name_what_was_found_and_expected() {
        let refused = |text| Config::parse(text, TABLE).err().unwrap();
        assert_eq!(refused("{\"mod\": 1}"), "no parameter `mod`: it has mode, knob, limits, flag");
        assert_eq!(refused("{\"mode\": \"c\"}"), "`mode`: expected one of \"a\", \"b\", found \"c\"");
        assert_eq!(refused("{\"knob\": 10}"), "`knob`: expected a number from 0 to 9, found 10");
        assert_eq!(
            refused("{\"limits\": [2, 1]}"),
            "`limits`: expected a list of ascending numbers from 0 to any, found [2,1]"
        );
        assert_eq!(refused("[]"), "expected an object of parameters, found []");
    }

    #[test]
    fn the_schema_is_json() {
        let schema: Value = serde_json::from_str(&schema(TABLE)).unwrap();
        assert_eq!(schema["properties"]["knob"]["default"], 1.5);
    }
}
