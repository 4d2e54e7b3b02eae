//! Colours of a terminal: what went wrong, and verdicts.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};

/// When output is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is `dumb`.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

static CHOSEN: AtomicU8 = AtomicU8::new(Colour::Auto as u8);

pub(super) fn choose(colour: Colour) {
    CHOSEN.store(colour as u8, Ordering::Relaxed);
}

/// Whether what goes there is coloured.
#[expect(clippy::disallowed_methods, reason = "colours move no result")]
pub(super) fn colours(is_terminal: bool) -> bool {
    match CHOSEN.load(Ordering::Relaxed) {
        chosen if chosen == Colour::Always as u8 => true,
        chosen if chosen == Colour::Never as u8 => false,
        _ => {
            let set = std::env::var_os("NO_COLOR").is_some_and(|word| !word.is_empty());
            is_terminal && !set && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
        }
    }
}

const RED: &str = "\u{1b}[1;31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[1;33m";
const CYAN: &str = "\u{1b}[36m";
const PLAIN: &str = "\u{1b}[0m";

/// What lines begin with, and its colour.
const TROUBLES: [(&str, &str); 3] = [("error", RED), ("warning", YELLOW), ("hint", CYAN)];

/// Whether a line says that something went wrong.
pub(super) fn is_trouble(text: &str) -> bool {
    ["error", "warning"].iter().any(|word| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(':')))
}

/// The first word of errors, warnings and hints in its colour.
pub(super) fn troubles(text: &str) -> String {
    let painted = |line: &str| {
        for (word, colour) in TROUBLES {
            if let Some(rest) = line.strip_prefix(word).filter(|rest| rest.starts_with(':')) {
                return format!("{colour}{word}{PLAIN}{rest}");
            }
        }
        line.to_string()
    };
    text.split('\n').map(painted).collect::<Vec<_>>().join("\n")
}

/// Verdicts in their colours: words of tables, with a space on both sides or at an end of the line; and these parts, in
/// this order, which are good or bad.
pub(super) fn verdicts(text: &str, parts: &[(String, bool)]) -> String {
    // By where they begin: where they end, and their colour.
    let mut painted: BTreeMap<usize, (usize, &str)> = BTreeMap::new();
    let mut from = 0;
    for (part, is_good) in parts.iter().filter(|(part, _)| !part.is_empty()) {
        let is_painted = |at: &usize| painted.range(..=at).next_back().is_some_and(|(_, (end, _))| at < end);
        let next =
            |from: usize| text[from..].match_indices(part.as_str()).map(|(at, _)| from + at).find(|at| !is_painted(at));
        // A table that is wider than the terminal is printed in parts: what is in another comes earlier.
        let Some(at) = next(from).or_else(|| next(0)) else { continue };
        from = at + part.len();
        painted.insert(at, (from, if *is_good { GREEN } else { RED }));
    }
    let (mut out, mut done) = (String::new(), 0);
    for (at, (end, colour)) in painted {
        out.push_str(&format!("{}{colour}{}{PLAIN}", &text[done..at], &text[at..end]));
        done = end;
    }
    words(&(out + &text[done..]))
}

fn words(text: &str) -> String {
    let words = [("FAILS", RED), ("holds", GREEN), ("inconclusive", YELLOW)];
    let painted = |line: &str| {
        let mut line = line.to_string();
        for (word, colour) in words {
            let is_end = |c: Option<char>| c.is_none_or(char::is_whitespace);
            let found = line.match_indices(word).find(|(at, _)| {
                is_end(line[..*at].chars().next_back()) && is_end(line[at + word.len()..].chars().next())
            });
            if let Some((at, _)) = found {
                line = format!("{}{colour}{word}{PLAIN}{}", &line[..at], &line[at + word.len()..]);
            }
        }
        line
    };
    text.split('\n').map(painted).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_painted_and_no_part_of_others() {
        assert_eq!(troubles("error: x\n  error: y\nerrors"), "\u{1b}[1;31merror\u{1b}[0m: x\n  error: y\nerrors");
        assert_eq!(verdicts("a  FAILS  b", &[]), "a  \u{1b}[1;31mFAILS\u{1b}[0m  b");
        assert_eq!(verdicts("withholds", &[]), "withholds");
        let parts = [("-3 % *".to_string(), true), ("cut off".to_string(), true), ("+4 % *".to_string(), false)];
        let painted = "fifo +4 %\nlas  \u{1b}[32m-3 % *\u{1b}[0m  \u{1b}[1;31m+4 % *\u{1b}[0m";
        assert_eq!(verdicts("fifo +4 %\nlas  -3 % *  +4 % *", &parts), painted);
        // In the order of rows, printed in the order of columns.
        let parts = [("-1 *", true), ("-2 *", true), ("-3 *", true), ("-4 *", true)]
            .map(|(part, good)| (part.to_string(), good));
        assert_eq!(verdicts("a -1 *\nb -3 *\n\na -2 *\nb -4 *", &parts).matches(GREEN).count(), 4);
        assert!(is_trouble("warning: x") && !is_trouble("25 cells") && !is_trouble("errors"));
    }
}
