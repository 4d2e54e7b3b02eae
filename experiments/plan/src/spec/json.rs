//! Specs in JSON, for programs that write them: the same types, as serde writes them in JSON, become the text that RON would have.

use std::cell::RefCell;
use std::fmt::{self, Write as _};

use sandtable_core::diagnostic;
use sandtable_core::error::Error;
use serde::de::value::Error as Wrong;
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, Error as _, MapAccess, SeqAccess, VariantAccess, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::{Map, Value};

use super::{Spec, tree};

/// Whether a text is JSON and not RON: a spec is a struct, which in RON does not begin so.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// The spec of a JSON text as RON.
///
/// # Errors
/// What is wrong, and where.
pub(crate) fn to_ron(origin: &str, text: &str) -> Result<String, Error> {
    let Unique(value) = serde_json::from_str(text).map_err(|error| {
        let at = diagnostic::offset(text, error.line().max(1), error.column().max(1));
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default().to_string();
        diagnostic::at(origin, text, at..at, &format!("no JSON: {words}"), "here", None)
    })?;
    let written = Written { out: RefCell::new(String::new()), path: RefCell::new(Vec::new()) };
    match Spec::deserialize(Reader { value: &value, written: &written }) {
        Ok(_) => Ok(written.out.into_inner()),
        Err(error) => {
            let path = written.path.into_inner();
            let node = tree::Node::parse(text);
            let quoted: Vec<String> = path.iter().map(|part| format!("\"{part}\"")).collect();
            let span =
                node.as_ref().and_then(|node| node.find(text, &quoted.join(".")).ok()).map(|node| node.span.clone());
            let span = span.unwrap_or(0..1);
            let message = if path.is_empty() { error.to_string() } else { format!("{}: {error}", path.join(".")) };
            Err(diagnostic::at(origin, text, span, &message, "here", None))
        }
    }
}

/// A JSON value whose objects have no key twice.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unique, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Value;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a JSON value")
            }

            fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
                Ok(Value::Null)
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
                Ok(value.into())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
                let mut all = Vec::new();
                while let Some(Unique(item)) = items.next_element()? {
                    all.push(item);
                }
                Ok(all.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
                let mut all = Map::new();
                while let Some(key) = entries.next_key::<String>()? {
                    if all.contains_key(&key) {
                        return Err(A::Error::custom(format!("the key {key:?} is there twice")));
                    }
                    let Unique(value) = entries.next_value()?;
                    all.insert(key, value);
                }
                Ok(all.into())
            }
        }
        deserializer.deserialize_any(Any).map(Unique)
    }
}

/// A JSON value as RON writes it, for a place where any value may stand.
///
/// ```
/// use sandtable_plan::spec::value_as_ron;
///
/// let value = serde_json::json!({"a": [1, 2.5, "\u{1b}"]});
/// assert_eq!(value_as_ron(&value), r#"{"a": [1, 2.5, "\u{1b}"]}"#);
/// ```
pub fn value_as_ron(value: &Value) -> String {
    let written = Written { out: RefCell::new(String::new()), path: RefCell::new(Vec::new()) };
    // A value takes whatever stands there.
    let _ = Value::deserialize(Reader { value, written: &written });
    written.out.into_inner()
}

/// What has been written, and the place in the JSON.
struct Written {
    out: RefCell<String>,
    path: RefCell<Vec<String>>,
}

impl Written {
    fn put(&self, text: &str) {
        self.out.borrow_mut().push_str(text);
    }
}

/// Reads a value as a type asks for it, and writes it as RON would.
#[derive(Clone, Copy)]
struct Reader<'a> {
    value: &'a Value,
    written: &'a Written,
}

impl<'a> Reader<'a> {
    fn list(self, ends: [&'static str; 2], all: &'a [Value]) -> Items<'a> {
        self.written.put(ends[0]);
        Items { all: all.iter().enumerate(), written: self.written }
    }

    fn pairs(self, fields: bool, all: &'a Map<String, Value>) -> Pairs<'a> {
        Pairs { all: all.iter(), next: None, has_begun: false, fields, written: self.written }
    }

    fn seq<V: Visitor<'a>>(self, ends: [&'static str; 2], visitor: V) -> Result<V::Value, Wrong> {
        let Value::Array(all) = self.value else { return self.plain(visitor) };
        let found = visitor.visit_seq(self.list(ends, all))?;
        self.written.put(ends[1]);
        Ok(found)
    }

    fn map<V: Visitor<'a>>(self, fields: bool, visitor: V) -> Result<V::Value, Wrong> {
        let Value::Object(all) = self.value else { return self.plain(visitor) };
        self.written.put(if fields { "(" } else { "{" });
        let found = visitor.visit_map(self.pairs(fields, all))?;
        self.written.put(if fields { ")" } else { "}" });
        Ok(found)
    }

    /// A value whose type asks for nothing in particular.
    fn plain<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.value {
            Value::Array(_) => self.seq(["[", "]"], visitor),
            Value::Object(_) => self.map(false, visitor),
            Value::Null => {
                self.written.put("()");
                visitor.visit_unit()
            }
            Value::Bool(truth) => {
                self.written.put(if *truth { "true" } else { "false" });
                visitor.visit_bool(*truth)
            }
            Value::String(text) => {
                let _ = write!(self.written.out.borrow_mut(), "{text:?}");
                visitor.visit_borrowed_str(text)
            }
            Value::Number(number) => {
                let _ = write!(self.written.out.borrow_mut(), "{number}");
                match (number.as_u64(), number.as_i64()) {
                    (Some(number), _) => visitor.visit_u64(number),
                    (_, Some(number)) => visitor.visit_i64(number),
                    _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
                }
            }
        }
    }
}

impl<'a> Deserializer<'a> for Reader<'a> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.plain(visitor)
    }

    fn deserialize_option<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if self.value.is_null() {
            self.written.put("None");
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'a>>(self, _: &'static str, visitor: V) -> Result<V::Value, Wrong> {
        self.written.put("(");
        let found = visitor.visit_newtype_struct(self)?;
        self.written.put(")");
        Ok(found)
    }

    fn deserialize_seq<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.seq(["[", "]"], visitor)
    }

    fn deserialize_tuple<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.seq(["(", ")"], visitor)
    }

    fn deserialize_map<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.map(false, visitor)
    }

    fn deserialize_struct<V: Visitor<'a>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        if self.value.is_object() {
            self.written.put(name);
        }
        self.map(true, visitor)
    }

    fn deserialize_enum<V: Visitor<'a>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (name, value) = match self.value {
            Value::String(name) => (name, None),
            Value::Object(all) if all.len() == 1 => {
                let Some((name, value)) = all.iter().next() else { return self.plain(visitor) };
                (name, Some(value))
            }
            other => {
                let found = if other.is_object() { "an object of several fields" } else { "another value" };
                let known = variants.join(", ");
                return Err(Wrong::custom(format!("expected a name, or an object of one, of: {known}; found {found}")));
            }
        };
        visitor.visit_enum(Choice { name, value, written: self.written })
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct tuple_struct identifier
        ignored_any
    }
}

struct Items<'a> {
    all: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
    written: &'a Written,
}

impl<'a> SeqAccess<'a> for Items<'a> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<Option<T::Value>, Wrong> {
        let Some((index, value)) = self.all.next() else { return Ok(None) };
        if index > 0 {
            self.written.put(", ");
        }
        self.written.path.borrow_mut().push(index.to_string());
        let found = seed.deserialize(Reader { value, written: self.written })?;
        self.written.path.borrow_mut().pop();
        Ok(Some(found))
    }
}

struct Pairs<'a> {
    all: serde_json::map::Iter<'a>,
    next: Option<&'a Value>,
    has_begun: bool,
    /// Fields of a struct, and not entries of a map.
    fields: bool,
    written: &'a Written,
}

impl<'a> MapAccess<'a> for Pairs<'a> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Wrong> {
        let Some((name, value)) = self.all.next() else { return Ok(None) };
        if std::mem::replace(&mut self.has_begun, true) {
            self.written.put(", ");
        }
        self.next = Some(value);
        self.written.path.borrow_mut().push(name.clone());
        let found = seed.deserialize(Key { name, field: self.fields, written: self.written })?;
        self.written.put(": ");
        Ok(Some(found))
    }

    fn next_value_seed<T: DeserializeSeed<'a>>(&mut self, seed: T) -> Result<T::Value, Wrong> {
        let value = self.next.take().ok_or_else(|| Wrong::custom("a value without a key"))?;
        let found = seed.deserialize(Reader { value, written: self.written })?;
        self.written.path.borrow_mut().pop();
        Ok(found)
    }
}

/// A key: the name of a field, a text, or, in JSON as a text, a number.
struct Key<'a> {
    name: &'a str,
    field: bool,
    written: &'a Written,
}

impl<'a> Key<'a> {
    fn number<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let wrong = || Wrong::custom(format!("expected a whole number as a key, found {:?}", self.name));
        let number: i64 = self.name.parse().map_err(|_| wrong())?;
        self.written.put(self.name);
        match u64::try_from(number) {
            Ok(number) => visitor.visit_u64(number),
            Err(_) => visitor.visit_i64(number),
        }
    }
}

impl<'a> Deserializer<'a> for Key<'a> {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self.field {
            true => self.written.put(self.name),
            false => {
                let _ = write!(self.written.out.borrow_mut(), "{:?}", self.name);
            }
        }
        visitor.visit_borrowed_str(self.name)
    }

    fn deserialize_u32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.number(visitor)
    }

    fn deserialize_u64<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.number(visitor)
    }

    fn deserialize_i32<V: Visitor<'a>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.number(visitor)
    }

    forward_to_deserialize_any! {
        <V: Visitor<'a>>
        bool i8 i16 i64 i128 u8 u16 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// A case of an enum, and what it holds.
struct Choice<'a> {
    name: &'a str,
    value: Option<&'a Value>,
    written: &'a Written,
}

impl<'a> Choice<'a> {
    /// What it holds, between parentheses.
    fn holding<T>(self, read: impl FnOnce(Reader<'a>) -> Result<T, Wrong>) -> Result<T, Wrong> {
        let value = self.value.ok_or_else(|| Wrong::custom(format!("expected {{{:?}: …}}", self.name)))?;
        let Choice { name, written, .. } = self;
        written.path.borrow_mut().push(name.to_string());
        written.put("(");
        let found = read(Reader { value, written })?;
        written.put(")");
        written.path.borrow_mut().pop();
        Ok(found)
    }
}

impl<'a> EnumAccess<'a> for Choice<'a> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'a>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        let found = seed.deserialize(Key { name: self.name, field: true, written: self.written })?;
        Ok((found, self))
    }
}

impl<'a> VariantAccess<'a> for Choice<'a> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        match self.value {
            None | Some(Value::Null) => Ok(()),
            Some(_) => Err(Wrong::custom(format!("{} holds nothing: expected {:?}", self.name, self.name))),
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'a>>(self, seed: T) -> Result<T::Value, Wrong> {
        self.holding(|reader| seed.deserialize(reader))
    }

    fn tuple_variant<V: Visitor<'a>>(self, _: usize, visitor: V) -> Result<V::Value, Wrong> {
        self.holding(|reader| match reader.value {
            Value::Array(all) => visitor.visit_seq(reader.list([""; 2], all)),
            _ => Err(Wrong::custom("expected a list")),
        })
    }

    fn struct_variant<V: Visitor<'a>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Wrong> {
        self.holding(|reader| match reader.value {
            Value::Object(all) => visitor.visit_map(reader.pairs(true, all)),
            _ => Err(Wrong::custom("expected an object of fields")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Source;

    fn written(text: &str) -> Result<String, String> {
        let ron = to_ron("spec.json", text).map_err(|error| error.to_string())?;
        Source::new("spec.ron", ron.clone()).parse().map_err(|error| format!("{error}\n{ron}"))?;
        Ok(ron)
    }

    #[test]
    fn json_says_what_ron_says() {
        let text = r#"{"title": "a \"t\"", "fleet": {"Model": {"nodes": 2, "gpus": 4, "kind": "T4", "sharing": {"Packed": 2}}},
            "workload": {"Generate": {"jobs": 5, "arrivals": {"Poisson": {"load": 0.9}}, "gpus": {"1": 3, "2": 1}}},
            "policies": [{"name": "fifo"}, {"name": "las", "label": "9", "with": {"limits": [1, 2.5], "mode": "queues"}}],
            "predictors": {"remaining": {"Noisy": {"sigma": 0.5}}, "memory": "Oracle"}, "seeds": {"Range": [0, 3]},
            "sweep": {"fleet.nodes": [1, 2]}}"#;
        let ron = written(text).expect("a spec");
        for part in [
            r#"Experiment("#,
            r#"fleet: Model("#,
            r#"sharing: Packed(2)"#,
            r#"gpus: {1: 3, 2: 1}"#,
            r#""limits": [1, 2.5]"#,
            r#""memory": Oracle"#,
            r#"seeds: Range(0, 3)"#,
        ] {
            assert!(ron.contains(part), "{part}: {ron}");
        }
    }

    #[test]
    fn mistakes_have_their_place_in_the_json() {
        let of = |text: &str| written(text).expect_err("a mistake");
        let spec = |fleet: &str| format!("{{\"title\": \"t\",\n \"fleet\": {fleet}, \"policies\": []}}");
        let found = of(&spec("{\"Model\": {\"nodes\": \"two\"}}"));
        assert!(
            found.contains("fleet.Model.nodes: invalid type: string \"two\"") && found.contains("spec.json:2:"),
            "{found}"
        );
        assert!(of(&spec("{\"Modell\": {}}")).contains("unknown variant `Modell`"));
        assert!(of(&spec("3")).contains("expected a name, or an object of one, of: Model"));
        assert!(of("{\"title\": }").contains("no JSON: expected value"));
    }
}
