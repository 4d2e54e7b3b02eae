//! The text of a spec: where its mistakes are shown, and where values are set.

use sandtable_core::diagnostic;
use sandtable_core::error::Error;
use sandtable_core::text::nearest;

use super::expected::{Around, better};
use super::{Spec, json, tree, typed};

/// A spec and the source that it was read from.
#[derive(Clone, Debug)]
pub struct Source {
    /// How diagnostics call it.
    pub origin: String,
    /// The text, edits included.
    pub text: String,
    /// The JSON that the text was made of, until it is edited.
    json: Option<String>,
}

impl Source {
    /// A text, which diagnostics call `origin`.
    pub fn new(origin: impl Into<String>, text: impl Into<String>) -> Source {
        Source { origin: origin.into(), text: text.into(), json: None }
    }

    /// A text that may be JSON.
    ///
    /// # Errors
    /// What is wrong with the JSON, and where.
    pub fn of_any(origin: String, text: String) -> Result<Source, Error> {
        match json::is_json(&text) {
            true => Ok(Source { text: json::to_ron(&origin, &text)?, origin, json: Some(text) }),
            false => Ok(Source::new(origin, text)),
        }
    }

    /// Reads the text.
    ///
    /// ```
    /// use sandtable_plan::spec::Source;
    ///
    /// let text = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 5, \
    ///             arrivals: AtOnce), policies: [Policy(name: \"fifo\")])";
    /// let spec = Source::new("spec.ron", text).parse()?;
    /// assert_eq!((spec.title.as_str(), spec.policies.len()), ("t", 1));
    /// # Ok::<(), sandtable_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A diagnostic with the place in the source.
    pub fn parse(&self) -> Result<Spec, Error> {
        use ron::extensions::Extensions;
        let options = ron::Options::default().with_default_extension(Extensions::IMPLICIT_SOME);
        options.from_str(&self.text).map_err(|error| {
            let place = |at: ron::error::Position| diagnostic::offset(&self.text, at.line, at.col);
            let mut span = place(error.span.start)..place(error.span.end);
            let (mut message, label) = describe(&error.code);
            // A wrong value is marked by a point in it or behind it: the whole value says more.
            let tree = tree::Node::parse(&self.text);
            if let Some(node) =
                tree.as_ref().map(|tree| tree.around(span.start)).filter(|node| node.is_plain() && label == "here")
            {
                span = node.span.clone();
                let found = &self.text[span.clone()];
                if !message.contains("found") {
                    message.push_str(&format!(", found {found}"));
                }
            }
            let around = Around::of(&self.text, span.start);
            if label == "here"
                && let Some((wider, better)) = better(&self.text, &span, &around, &error.code)
            {
                (span, message) = (wider, better);
            }
            let hint = match &error.code {
                // `Policy(name: "fifo", Policy(…`: a type where a field is expected.
                ron::Error::NoSuchStructField { found, outer, .. }
                    if found.starts_with(char::is_uppercase) && around.is_enclosed() =>
                {
                    let open = outer.as_deref().unwrap_or("the one before");
                    Some(format!("is the `)` of `{open}` missing before it?"))
                }
                ron::Error::NoSuchStructField { expected, found, .. } => suggestion(found, expected),
                ron::Error::NoSuchEnumVariant { expected, found, .. } => suggestion(found, expected),
                _ => None,
            };
            diagnostic::at(&self.origin, &self.text, span, &message, &label, hint)
        })
    }

    /// The error of what a valid source means at `path`.
    pub fn error(&self, path: &str, message: &str, label: &str) -> Error {
        if let Some(json) = &self.json
            && let Some(tree) = tree::Node::parse(json)
            && let Some(node) = tree.find_in_json(json, path)
        {
            return diagnostic::at(&self.origin, json, node.span.clone(), message, label, None);
        }
        let node = tree::Node::parse(&self.text);
        let node = node.as_ref().and_then(|node| node.find(&self.text, path).ok());
        match node {
            Some(node) => diagnostic::at(&self.origin, &self.text, node.span.clone(), message, label, None),
            None => Error::usage(format!("{}: {path}: {message}", self.origin)),
        }
    }

    /// Adds the place at `path` to an error that has none.
    pub fn locate(&self, error: Error, path: &str) -> Error {
        let located = self.error(path, &error.message, "here");
        Error { hint: error.hint.or(located.hint.clone()), ..located }
    }

    /// The source with one value set. Lists and objects of JSON become what their place asks for.
    ///
    /// ```
    /// use sandtable_plan::spec::Source;
    ///
    /// let source = Source::new("spec.ron", "Experiment(fleet: Model(nodes: 1))");
    /// assert_eq!(source.with("fleet.nodes", "8")?.text, "Experiment(fleet: Model(nodes: 8))");
    /// # Ok::<(), sandtable_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// Where the path leads nowhere.
    pub fn with(&self, path: &str, value: &str) -> Result<Source, Error> {
        let typed = typed::ron_at(&self.text, path, value);
        match tree::set(&self.text, path, typed.as_deref().unwrap_or(value)) {
            Ok(text) => Ok(Source::new(self.origin.clone(), text)),
            Err(no_such) => {
                let near = nearest(&no_such.segment, no_such.known.iter().map(String::as_str));
                let error =
                    Error::usage(format!("{}: nothing at `{path}`: no `{}` there", self.origin, no_such.segment));
                Err(match near {
                    Some(near) => error.hint(format!("there is `{near}`")),
                    None if no_such.known.is_empty() => error,
                    None => error.hint(format!("expected one of: {}", no_such.known.join(", "))),
                })
            }
        }
    }
}

fn suggestion(found: &str, expected: &[&'static str]) -> Option<String> {
    nearest(found, expected.iter().copied()).map(|near| format!("did you mean `{near}`?"))
}

/// What is wrong, in our words where RON's are about its own machinery, and what to write beside the place.
fn describe(error: &ron::Error) -> (String, String) {
    let place = |outer: &Option<String>| outer.as_ref().map_or(String::new(), |outer| format!(" in `{outer}`"));
    let list = |names: &[&str]| format!("`{}`", names.join("`, `"));
    let (message, label) = match error {
        ron::Error::NoSuchStructField { expected, found, outer } => {
            (format!("no field `{found}`{}: expected {}", place(outer), list(expected)), "no such field")
        }
        ron::Error::NoSuchEnumVariant { expected, found, outer } => {
            (format!("no `{found}`{}: expected {}", place(outer), list(expected)), "no such choice")
        }
        ron::Error::MissingStructField { field, outer } => {
            (format!("field `{field}` is missing{}", place(outer)), "missing before this")
        }
        ron::Error::DuplicateStructField { field, outer } => {
            (format!("duplicate field `{field}`{}", place(outer)), "the second")
        }
        ron::Error::IntegerOutOfBounds => ("the number is out of bounds".to_string(), "here"),
        other => {
            let text = other.to_string();
            let mut chars = text.chars();
            (chars.next().into_iter().flat_map(char::to_lowercase).chain(chars).collect(), "here")
        }
    };
    (message, label.to_string())
}
