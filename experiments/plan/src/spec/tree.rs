//! Finds values in a RON source by their paths: `workload.arrivals.load` as a byte range.
//!
//! `--set`, sweeps and the cut of a test are edits of the source at such a place, so whatever a spec may say can be
//! set, and a wrong value gives the diagnostic that it would give in the file. Only sources that RON has accepted
//! come here; types and names are RON's business.

use std::ops::Range;

/// A value and its place.
#[derive(Debug)]
pub struct Node {
    /// Its bytes.
    pub span: Range<usize>,
    kind: NodeKind,
}

#[derive(Debug)]
enum NodeKind {
    Scalar,
    /// `Name(a: 1)`, `(a: 1)`.
    Fields(Vec<(String, Node)>),
    /// `Name(1, 2)`, `[1, 2]`.
    Items(Vec<Node>),
    /// `{ "a": 1 }`.
    Entries(Vec<(String, Node)>),
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq)]
pub struct NoSuch {
    /// The segment that was not found.
    pub segment: String,
    /// What is there instead.
    pub known: Vec<String>,
}

impl Node {
    /// Reads a source.
    pub fn parse(source: &str) -> Option<Node> {
        let mut reader = Reader { source, at: 0, depth: 0 };
        reader.skip();
        while reader.rest().starts_with("#!") {
            reader.at += reader.rest().find(']')? + 1;
            reader.skip();
        }
        reader.value()
    }

    /// The value at a path of names separated by dots; elements of a list by index, or by their `label` or `name`.
    ///
    /// # Errors
    /// The segment that leads nowhere.
    pub fn find(&self, source: &str, path: &str) -> Result<&Node, NoSuch> {
        split(path).iter().try_fold(self, |node, segment| node.child(source, segment))
    }

    /// As [`Node::find`], in the JSON that a source is made of: an object of one case of an enum stands for what it holds.
    pub(super) fn find_in_json(&self, json: &str, path: &str) -> Option<&Node> {
        split(path).iter().try_fold(self, |node, segment| node.child_in_json(json, segment))
    }

    fn child_in_json(&self, json: &str, segment: &str) -> Option<&Node> {
        match &self.kind {
            NodeKind::Scalar | NodeKind::Fields(_) => None,
            NodeKind::Entries(pairs) => match (pairs.iter().find(|(name, _)| name == segment), pairs.as_slice()) {
                (Some((_, node)), _) => Some(node),
                (None, [(_, only)]) => only.child_in_json(json, segment),
                _ => None,
            },
            NodeKind::Items(items) => {
                let at = segment.parse().ok().and_then(|index: usize| items.get(index));
                at.or_else(|| items.iter().find(|item| called(item.entries(), json).as_deref() == Some(segment)))
            }
        }
    }

    /// The smallest value around a byte, or ending just before it.
    pub fn around(&self, at: usize) -> &Node {
        let inside: Vec<&Node> = match &self.kind {
            NodeKind::Scalar => vec![],
            NodeKind::Fields(pairs) | NodeKind::Entries(pairs) => pairs.iter().map(|(_, node)| node).collect(),
            NodeKind::Items(items) => items.iter().collect(),
        };
        let found = inside.into_iter().find(|node| node.span.start <= at && at <= node.span.end);
        found.map_or(self, |node| node.around(at))
    }

    /// Whether it is a plain value: a number, a text, a name.
    pub fn is_plain(&self) -> bool {
        matches!(self.kind, NodeKind::Scalar)
    }

    /// The elements of a list or tuple.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            NodeKind::Items(items) => items,
            _ => &[],
        }
    }

    /// The fields of a struct, or of a case of an enum.
    pub fn fields(&self) -> &[(String, Node)] {
        match &self.kind {
            NodeKind::Fields(fields) => fields,
            _ => &[],
        }
    }

    /// The entries of a map.
    pub fn entries(&self) -> &[(String, Node)] {
        match &self.kind {
            NodeKind::Entries(entries) => entries,
            _ => &[],
        }
    }

    fn child(&self, source: &str, segment: &str) -> Result<&Node, NoSuch> {
        let missing = |known: Vec<String>| NoSuch { segment: segment.into(), known };
        match &self.kind {
            NodeKind::Scalar => Err(missing(vec![])),
            NodeKind::Fields(pairs) | NodeKind::Entries(pairs) => {
                let found = pairs.iter().find(|(name, _)| name == segment);
                found.map(|(_, node)| node).ok_or_else(|| missing(pairs.iter().map(|(name, _)| name.clone()).collect()))
            }
            NodeKind::Items(items) => {
                if let Some(node) = segment.parse().ok().and_then(|index: usize| items.get(index)) {
                    return Ok(node);
                }
                let names: Vec<Option<String>> = items.iter().map(|item| item.name(source)).collect();
                let found = names.iter().position(|name| name.as_deref() == Some(segment));
                if let Some(index) = found {
                    return Ok(&items[index]);
                }
                // `Some(x)` and newtypes are transparent.
                match items.as_slice() {
                    [only] if source.as_bytes()[self.span.start] != b'[' => only.child(source, segment),
                    _ => Err(missing(names.into_iter().flatten().collect())),
                }
            }
        }
    }

    /// Paths of the plain values in it, in the order of the source.
    pub(super) fn paths(&self, source: &str) -> Vec<String> {
        let mut paths = Vec::new();
        self.add_paths(source, "", &mut paths);
        paths
    }

    fn add_paths(&self, source: &str, path: &str, paths: &mut Vec<String>) {
        let mut within = |segment: &str, node: &Node| {
            // A shell takes other signs for its own.
            let is_word = segment.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
            if is_word && path.is_empty() {
                node.add_paths(source, segment, paths);
            } else if is_word {
                node.add_paths(source, &format!("{path}.{segment}"), paths);
            }
        };
        match &self.kind {
            NodeKind::Scalar => paths.push(path.to_string()),
            NodeKind::Fields(pairs) | NodeKind::Entries(pairs) => {
                pairs.iter().for_each(|(name, node)| within(name, node));
            }
            NodeKind::Items(items) => items.iter().enumerate().for_each(|(at, node)| {
                within(&node.name(source).unwrap_or_else(|| at.to_string()), node);
            }),
        }
    }

    /// What a list's element is called: its label, else its name, else the last part of a path.
    pub(super) fn name(&self, source: &str) -> Option<String> {
        let NodeKind::Fields(fields) = &self.kind else { return None };
        called(fields, source)
    }
}

fn called(fields: &[(String, Node)], source: &str) -> Option<String> {
    let text =
        |key: &str| fields.iter().find(|(name, _)| name == key).map(|(_, node)| unquote(&source[node.span.clone()]));
    text("label").or_else(|| text("name")).map(|name| super::short_name(&name).to_string())
}

/// The source with the value at `path` replaced or, where only its last part is missing, added.
///
/// # Errors
/// The segment that leads nowhere.
pub fn set(source: &str, path: &str, value: &str) -> Result<String, NoSuch> {
    let missing = || NoSuch { segment: path.into(), known: vec![] };
    let root = Node::parse(source).ok_or_else(missing)?;
    let parts = split(path);
    let Some((last, parents)) = parts.split_last() else { return Err(missing()) };
    let within = parents.iter().any(|part| part == "with");
    let value = &if within { parameter(value) } else { value.to_string() };
    let parent = parents.iter().try_fold(&root, |node, segment| node.child(source, segment))?;
    let splice = |range: Range<usize>, text: &str| format!("{}{text}{}", &source[..range.start], &source[range.end..]);
    match parent.child(source, last) {
        Ok(node) => {
            let quoted = source[node.span.clone()].starts_with('"');
            // What is set of a policy's parameters says itself whether it is a text.
            let bare = !within && !value.starts_with(['"', '(', '[', '{']);
            let value = if quoted && bare { format!("{value:?}") } else { value.into() };
            Ok(splice(node.span.clone(), &value))
        }
        Err(no_such) => {
            let close = parent.span.end - 1;
            let (field, last) = match &parent.kind {
                NodeKind::Fields(fields) => (format!("{last}: {value}"), fields.last()),
                NodeKind::Entries(entries) => (format!("{last:?}: {value}"), entries.last()),
                _ => return Err(no_such),
            };
            // After the last one, before whatever comma or comment follows it.
            match last {
                Some((_, node)) => Ok(splice(node.span.end..node.span.end, &format!(", {field}"))),
                None => Ok(splice(close..close, &field)),
            }
        }
    }
}

/// What is set within a policy's parameters, which may be of any kind: what RON does not read as a value, a bare word too, is a text.
fn parameter(value: &str) -> String {
    let word = value.trim();
    let is_text = match ron::from_str::<ron::Value>(word) {
        Ok(ron::Value::Unit) => !matches!(word, "()" | "null"),
        Ok(ron::Value::Number(number)) => !number.into_f64().is_finite(),
        Ok(_) => false,
        Err(_) => true,
    };
    if is_text { format!("{word:?}") } else { value.to_string() }
}

/// Segments of a path; a segment in double quotes may hold dots.
pub(super) fn split(path: &str) -> Vec<String> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for c in path.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            c => parts.last_mut().expect("never empty").push(c),
        }
    }
    parts
}

/// The text of a string or of a bare word.
pub fn unquote(text: &str) -> String {
    ron::from_str::<String>(text).unwrap_or_else(|_| text.to_string())
}

struct Reader<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    /// White space and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start();
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let mut depth = 0;
                while self.at < self.source.len() {
                    if self.rest().starts_with("/*") {
                        depth += 1;
                        self.at += 2;
                    } else if self.rest().starts_with("*/") {
                        depth -= 1;
                        self.at += 2;
                        if depth == 0 {
                            break;
                        }
                    } else {
                        self.at += self.rest().chars().next().map_or(1, char::len_utf8);
                    }
                }
            } else {
                return;
            }
        }
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip();
        let found = self.rest().starts_with(c);
        self.at += if found { c.len_utf8() } else { 0 };
        found
    }

    fn value(&mut self) -> Option<Node> {
        self.skip();
        let start = self.at;
        if self.rest().starts_with(['(', '[', '{']) {
            return self.compound(start);
        }
        if !self.string() {
            let word = self.word();
            if word == 0 {
                return None;
            }
            let end = self.at;
            self.skip();
            if self.rest().starts_with('(') {
                return self.compound(start);
            }
            self.at = end;
        }
        Some(Node { span: start..self.at, kind: NodeKind::Scalar })
    }

    /// Anything up to a delimiter: numbers, names, booleans.
    fn word(&mut self) -> usize {
        let rest = self.rest();
        let stop = |c: char| c.is_whitespace() || "()[]{},:/\"".contains(c);
        let length = rest.find(stop).unwrap_or(rest.len());
        self.at += length;
        length
    }

    fn string(&mut self) -> bool {
        let rest = self.rest();
        if let Some(raw) = rest.strip_prefix('r') {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            if raw[hashes..].starts_with('"') {
                let close = format!("\"{}", "#".repeat(hashes));
                let body = 1 + hashes + 1;
                self.at += body + rest[body..].find(&close).map_or(rest.len() - body, |at| at + close.len());
                return true;
            }
        }
        let Some(quote) = rest.chars().next().filter(|c| *c == '"' || *c == '\'') else { return false };
        let mut escaped = false;
        for (index, c) in rest.char_indices().skip(1) {
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == quote {
                self.at += index + 1;
                return true;
            }
        }
        self.at = self.source.len();
        true
    }

    fn compound(&mut self, start: usize) -> Option<Node> {
        // As deep as RON itself goes.
        self.depth += 1;
        if self.depth > 128 {
            return None;
        }
        let open = self.rest().chars().next()?;
        let close = match open {
            '(' => ')',
            '[' => ']',
            _ => '}',
        };
        self.at += 1;
        let (mut pairs, mut items) = (Vec::new(), Vec::new());
        while !self.eat(close) {
            let first = self.value()?;
            if open != '[' && self.eat(':') {
                let name = unquote(&self.source[first.span.clone()]);
                pairs.push((name, self.value()?));
            } else {
                items.push(first);
            }
            if !self.eat(',') && !self.rest().starts_with(close) {
                return None;
            }
        }
        self.depth -= 1;
        let kind = match open {
            '{' => NodeKind::Entries(pairs),
            '(' if items.is_empty() => NodeKind::Fields(pairs),
            _ => NodeKind::Items(items),
        };
        Some(Node { span: start..self.at, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"Experiment( // a comment, with (brackets
        title: "a \"quoted\" (title)",
        workload: Generate(jobs: 3, arrivals: Poisson(load: 1.2)),
        policies: [Policy(name: "fifo"), Policy(name: "x/las.wasm", with: { "limits": [1, 2] })],
    )"#;

    fn text(path: &str) -> String {
        let node = Node::parse(SOURCE).unwrap();
        let span = node.find(SOURCE, path).unwrap().span.clone();
        SOURCE[span].to_string()
    }

    #[test]
    fn paths_lead_to_values() {
        assert_eq!(text("workload.arrivals.load"), "1.2");
        assert_eq!(text("policies.las.with.limits.1"), "2");
        assert_eq!(text("policies.0.name"), "\"fifo\"");
        assert_eq!(text("title"), r#""a \"quoted\" (title)""#);
    }

    #[test]
    fn words_of_parameters_are_texts_and_what_ron_reads_is_a_value() {
        let added = |value: &str| {
            let changed = set(SOURCE, "policies.las.with.knob", value).unwrap();
            let from = changed.find("\"knob\": ").unwrap() + 8;
            changed[from..from + changed[from..].find(" })]").unwrap()].to_string()
        };
        for word in ["skip", "a/b.c", "x y", "1.2.3", "NaN"] {
            assert_eq!(added(word), format!("{word:?}"));
        }
        for value in
            ["5", " 5", "-1e3", "1_000", "0x10", "true", "None", "null", "Some(3)", "\"5\"", "[1, 2]", "{\"a\": 1}"]
        {
            assert_eq!(added(value), value);
        }
        // Where a text is, a number is one all the same.
        let text = set(SOURCE, "policies.las.with.knob", "fast").unwrap();
        assert!(set(&text, "policies.las.with.knob", "5").unwrap().contains("\"knob\": 5 }"));
    }

    #[test]
    fn values_are_replaced_or_added() {
        let changed = set(SOURCE, "workload.arrivals.load", "0.5").unwrap();
        assert!(changed.contains("Poisson(load: 0.5)"));
        assert!(set(SOURCE, "title", "new").unwrap().contains("title: \"new\""));
        assert!(set(SOURCE, "policies.las.with.knob", "2").unwrap().contains("[1, 2], \"knob\": 2 }"));
        assert!(set(SOURCE, "policies.fifo.with", "{}").unwrap().contains("\"fifo\", with: {})"));
        let seeds = set(SOURCE, "seeds", "[1]").unwrap();
        assert!(Node::parse(&seeds).unwrap().find(&seeds, "seeds.0").is_ok());
    }

    #[test]
    fn a_path_that_leads_nowhere_says_what_is_there() {
        let error = set(SOURCE, "workload.arivals.load", "1").unwrap_err();
        assert_eq!(error, NoSuch { segment: "arivals".into(), known: vec!["jobs".into(), "arrivals".into()] });
    }
}
