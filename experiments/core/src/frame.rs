//! A table of typed values, printed as aligned text, as CSV or as JSON lines.

mod aligned;
mod json;

use std::borrow::Cow;

use serde_json::{Value as Json, json};

use crate::display::Unit;

pub use aligned::{fit, parts};

/// A value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown: `-` in text, empty in CSV, null in JSON.
    Unknown,
    /// As [`Value::Unknown`], but JSON leaves the field out.
    Absent,
    /// Words.
    Text(String),
    /// A number in the unit of its column.
    Number(f64),
    /// A count.
    Count(u64),
    /// Yes or no.
    Bool(bool),
    /// A mean, in a column of estimates.
    Estimate(Estimated),
    /// A value that only JSON has as it is; text and CSV have its JSON.
    Json(Box<Json>),
    /// A value that text prints differently.
    Shown(Box<(Value, String)>),
}

/// A mean over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimated {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; `None` of one run.
    pub deviation: Option<f64>,
    /// Half of the 95 % interval of the mean; `None` of one run.
    pub half: Option<f64>,
}

impl Value {
    /// This value, with another text for people.
    #[must_use]
    pub fn shown(self, text: impl Into<String>) -> Value {
        Value::Shown(Box::new((self, text.into())))
    }

    /// The number by which rows are sorted; `None`: they are sorted by the text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(x) => Some(*x),
            Value::Count(count) => Some(*count as f64),
            Value::Estimate(of) => Some(of.mean),
            Value::Shown(of) => of.0.number(),
            _ => None,
        }
    }

    fn csv(&self) -> String {
        match self {
            Value::Unknown | Value::Absent => String::new(),
            Value::Text(text) => csv_cell(text).into_owned(),
            Value::Number(x) => finite(*x).map_or(String::new(), |x| x.to_string()),
            Value::Count(count) => count.to_string(),
            Value::Bool(yes) => yes.to_string(),
            Value::Estimate(of) => of.mean.to_string(),
            Value::Json(of) => csv_cell(&of.to_string()).into_owned(),
            Value::Shown(of) => match &of.0 {
                // What only JSON has as it is, CSV has as people read it.
                Value::Json(_) => csv_cell(&of.1).into_owned(),
                other => other.csv(),
            },
        }
    }

    fn json(&self) -> Option<Json> {
        Some(match self {
            Value::Absent => return None,
            Value::Unknown => Json::Null,
            Value::Text(text) => json!(text),
            Value::Number(x) => json!(finite(*x)),
            Value::Count(count) => json!(count),
            Value::Bool(yes) => json!(yes),
            Value::Estimate(of) => json!({"mean": finite(of.mean), "sd": of.deviation, "ci95": of.half}),
            Value::Json(of) => (**of).clone(),
            Value::Shown(of) => return of.0.json(),
        })
    }
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// A text as a cell of CSV, quoted where it has to be.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n', '\r']) {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Value {
        Value::Text(text.clone())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        if x.is_nan() { Value::Unknown } else { Value::Number(x) }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Value {
        Value::Count(count)
    }
}

impl From<u32> for Value {
    fn from(count: u32) -> Value {
        Value::Count(count.into())
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Value {
        Value::Count(count as u64)
    }
}

impl From<bool> for Value {
    fn from(yes: bool) -> Value {
        Value::Bool(yes)
    }
}

impl From<Json> for Value {
    fn from(of: Json) -> Value {
        Value::Json(Box::new(of))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(of: Option<T>) -> Value {
        of.map_or(Value::Unknown, Into::into)
    }
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words, aligned to the left.
    Words,
    /// Numbers, some of which may be unknown.
    Number,
    /// Counts.
    Count,
    /// Means: CSV has three columns of them.
    Estimate,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name in CSV and JSON.
    name: Cow<'static, str>,
    /// Its head in text.
    head: Cow<'static, str>,
    unit: Option<Unit>,
    kind: ColumnKind,
    /// The JSON object that has it; `None`: the row's own.
    within: Option<&'static str>,
    in_text: bool,
    in_csv: bool,
    in_json: bool,
}

impl Column {
    fn new(name: Cow<'static, str>, kind: ColumnKind) -> Column {
        let head = name.clone();
        Column { name, head, unit: None, kind, within: None, in_text: true, in_csv: true, in_json: true }
    }

    /// A column of words, aligned to the left.
    pub fn words(name: impl Into<Cow<'static, str>>) -> Column {
        Column::new(name.into(), ColumnKind::Words)
    }

    /// A column of numbers without a unit, aligned to the right.
    pub fn number(name: impl Into<Cow<'static, str>>) -> Column {
        Column::new(name.into(), ColumnKind::Number)
    }

    /// A column of counts, aligned to the right.
    pub fn count(name: impl Into<Cow<'static, str>>) -> Column {
        Column::new(name.into(), ColumnKind::Count)
    }

    /// A column of numbers in a unit, aligned to the right.
    pub fn of(name: impl Into<Cow<'static, str>>, unit: Unit) -> Column {
        Column { unit: Some(unit), ..Column::number(name) }
    }

    /// A column of means.
    pub fn estimates(name: impl Into<Cow<'static, str>>, unit: Unit) -> Column {
        Column { kind: ColumnKind::Estimate, ..Column::of(name, unit) }
    }

    /// With this head in text.
    #[must_use]
    pub fn head(self, head: impl Into<Cow<'static, str>>) -> Column {
        Column { head: head.into(), ..self }
    }

    /// JSON has it in the object `name` of the row.
    #[must_use]
    pub fn within(self, name: &'static str) -> Column {
        Column { within: Some(name), ..self }
    }

    /// Whether text has it; by default it has.
    #[must_use]
    pub fn in_text(self, in_text: bool) -> Column {
        Column { in_text, ..self }
    }

    /// Whether CSV has it; by default it has.
    #[must_use]
    pub fn in_csv(self, in_csv: bool) -> Column {
        Column { in_csv, ..self }
    }

    /// Whether JSON has it; by default it has.
    #[must_use]
    pub fn in_json(self, in_json: bool) -> Column {
        Column { in_json, ..self }
    }

    /// Only text has it.
    #[must_use]
    pub fn only_in_text(self) -> Column {
        self.in_csv(false).in_json(false)
    }

    /// Only JSON has it.
    #[must_use]
    pub fn only_in_json(self) -> Column {
        self.in_text(false).in_csv(false)
    }

    fn text(&self, value: &Value) -> String {
        let number = |x: f64| self.unit.map_or_else(|| x.to_string(), |unit| unit.text(x));
        match value {
            Value::Unknown | Value::Absent => "-".into(),
            Value::Text(text) => text.clone(),
            Value::Number(x) => number(*x),
            Value::Count(count) => count.to_string(),
            Value::Bool(yes) => yes.to_string(),
            Value::Estimate(of) => number(of.mean),
            Value::Json(of) => of.to_string(),
            Value::Shown(of) => of.1.clone(),
        }
    }
}

/// A table by rows.
///
/// ```
/// use sandtable_core::display::Unit;
/// use sandtable_core::frame::{Column, Frame};
///
/// let mut table = Frame::new([Column::words("policy"), Column::of("jct_mean_s", Unit::Seconds).head("JCT mean")]);
/// table.push(["fifo".into(), 5400.0.into()]);
/// assert_eq!(table.text(), "policy  JCT mean\nfifo    90.0 min\n");
/// assert_eq!(table.csv(), "policy,jct_mean_s\nfifo,5400\n");
/// assert_eq!(table.json_lines(), "{\"policy\":\"fifo\",\"jct_mean_s\":5400.0}\n");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Frame {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

impl Frame {
    /// An empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Frame {
        Frame { columns: columns.into(), rows: Vec::new() }
    }

    /// Adds a row: a value a column.
    pub fn push(&mut self, row: impl Into<Vec<Value>>) {
        let row = row.into();
        debug_assert_eq!(row.len(), self.columns.len(), "a value a column");
        self.rows.push(row);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The columns that CSV has: the name, the kind and the values of each.
    pub fn columns(&self) -> impl Iterator<Item = (&str, ColumnKind, Vec<&Value>)> {
        let of = |at: usize| self.rows.iter().filter_map(move |row| row.get(at)).collect();
        self.that(|column| column.in_csv).map(move |(at, column)| (column.name.as_ref(), column.kind, of(at)))
    }

    fn that(&self, is: fn(&Column) -> bool) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(move |(_, column)| is(column))
    }

    fn in_text(&self) -> Vec<(usize, &Column)> {
        self.that(|column| column.in_text).collect()
    }

    /// The names and kinds of the columns that text has.
    pub fn shown(&self) -> impl Iterator<Item = (&str, ColumnKind)> {
        self.in_text().into_iter().map(|(_, column)| (column.name.as_ref(), column.kind))
    }

    /// The heads of the columns that text has.
    pub fn heads(&self) -> Vec<String> {
        self.in_text().iter().map(|(_, column)| column.head.to_string()).collect()
    }

    /// The rows as text has them: a text and the number by which it is sorted.
    pub fn texts(&self) -> impl Iterator<Item = Vec<(String, Option<f64>)>> {
        let shown = self.in_text();
        let cell = |(value, column): (&Value, &Column)| (column.text(value), value.number());
        self.rows.iter().map(move |row| {
            shown.iter().filter_map(|(at, column)| row.get(*at).map(|value| cell((value, column)))).collect()
        })
    }

    /// Columns of words at the left of the text: names of what the others are of.
    pub fn names(&self) -> usize {
        self.in_text().iter().take_while(|(_, column)| column.kind == ColumnKind::Words).count()
    }

    /// Aligned columns below their heads; wider than [`fit`] said they are in parts below each other.
    pub fn text(&self) -> String {
        self.aligned(true, aligned::width())
    }

    /// As [`Frame::text`], however wide: for files.
    pub fn whole_text(&self) -> String {
        self.aligned(true, usize::MAX)
    }

    /// Aligned columns without their heads.
    pub fn text_rows(&self) -> String {
        self.aligned(false, usize::MAX)
    }

    /// A table of Markdown.
    pub fn markdown(&self) -> String {
        let heads = self.heads();
        let mut out = format!("| {} |\n|{}\n", heads.join(" | "), " --- |".repeat(heads.len()));
        for row in self.texts() {
            let cells: Vec<String> = row.into_iter().map(|(text, _)| text.replace('|', "\\|")).collect();
            out.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        out
    }

    /// CSV with a header. A column of means has its interval and its deviation beside it.
    pub fn csv(&self) -> String {
        self.csv_header() + &self.csv_rows()
    }

    /// The header of [`Frame::csv`].
    pub fn csv_header(&self) -> String {
        let names = self.that(|column| column.in_csv).map(|(_, column)| match column.kind {
            ColumnKind::Estimate => format!("{0},{0}_ci95,{0}_sd", column.name),
            _ => column.name.to_string(),
        });
        names.collect::<Vec<_>>().join(",") + "\n"
    }

    /// The rows of [`Frame::csv`].
    pub fn csv_rows(&self) -> String {
        let mut out = String::new();
        let data: Vec<(usize, &Column)> = self.that(|column| column.in_csv).collect();
        for row in &self.rows {
            for (place, (at, column)) in data.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                let value = row.get(*at).unwrap_or(&Value::Absent);
                let estimate = match value {
                    Value::Shown(of) => &of.0,
                    other => other,
                };
                match (column.kind == ColumnKind::Estimate, estimate) {
                    (true, Value::Estimate(of)) if of.mean.is_finite() => {
                        let text = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
                        out.push_str(&format!("{},{},{}", of.mean, text(of.half), text(of.deviation)));
                    }
                    (true, _) => out.push_str(",,"),
                    (false, _) => out.push_str(&value.csv()),
                }
            }
            out.push('\n');
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Frame {
        let mut frame = Frame::new([
            Column::words("name"),
            Column::of("x_s", Unit::Seconds).head("x"),
            Column::count("n"),
            Column::estimates("m", Unit::Times),
            Column::words("why").only_in_text(),
            Column::words("of").in_text(false).within("nested"),
        ]);
        let mean = Value::Estimate(Estimated { mean: 1.5, deviation: Some(0.5), half: Some(0.25) });
        frame.push(["a,b".into(), 90.0.into(), 3u64.into(), mean, "first".into(), json!({"k": 1}).into()]);
        frame.push(["ü".into(), f64::NAN.into(), (1u64 << 52).into(), Value::Absent, "-".into(), Value::Unknown]);
        frame
    }

    #[test]
    fn one_table_is_printed_in_every_form() {
        let text = "name       x                 n     m  why\na,b   90.0 s                 3  1.50  first\nü          -  4503599627370496     -  -\n";
        assert_eq!(small().text(), text);
        let csv = "name,x_s,n,m,m_ci95,m_sd,of\n\"a,b\",90,3,1.5,0.25,0.5,\"{\"\"k\"\":1}\"\nü,,4503599627370496,,,,\n";
        assert_eq!(small().csv(), csv);
        let lines = concat!(
            "{\"name\":\"a,b\",\"x_s\":90.0,\"n\":3,\"m\":{\"ci95\":0.25,\"mean\":1.5,\"sd\":0.5},\"nested\":{\"of\":{\"k\":1}}}\n",
            "{\"name\":\"ü\",\"x_s\":null,\"n\":4503599627370496,\"nested\":{\"of\":null}}\n"
        );
        assert_eq!(small().json_lines(), lines);
    }

    #[test]
    fn texts_have_the_number_that_they_are_sorted_by() {
        let mut frame = Frame::new([Column::words("name"), Column::of("x", Unit::Share)]);
        frame.push(["a".into(), Value::Number(0.5).shown("half*")]);
        assert_eq!((frame.text_rows().as_str(), frame.names()), ("a  half*\n", 1));
        assert_eq!(frame.texts().next(), Some(vec![("a".into(), None), ("half*".into(), Some(0.5))]));
    }
}
