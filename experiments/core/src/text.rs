//! Text that others wrote, made safe to print, and what they may have meant by it.

use sandtable_hardware::text::escape_control_chars;

/// Returns a foreign text as one line of at most 2,000 characters, with control characters escaped, so that it cannot pass
/// for a line of ours.
pub fn line(text: &str) -> String {
    escape_control_chars(text, 2_000)
}

/// A word of a command, quoted where a shell would read something else.
///
/// ```
/// use sandtable_core::text::word;
///
/// assert_eq!(["a/b.ron", "it's"].map(word), ["a/b.ron", r"'it'\''s'"]);
/// ```
pub fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    let safe = !text.is_empty() && text.chars().all(plain);
    if safe { text.into() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// The known word nearest to `found`, if one is near.
///
/// ```
/// assert_eq!(sandtable_core::text::nearest("tiresas", ["fifo", "tiresias"]), Some("tiresias"));
/// assert_eq!(sandtable_core::text::nearest("lottery", ["fifo", "tiresias"]), None);
/// ```
pub fn nearest<'a>(found: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let far = |word: &str| {
        let (a, b): (Vec<char>, Vec<char>) = (found.chars().collect(), word.chars().collect());
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, x) in a.iter().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, y) in b.iter().enumerate() {
                let change = diagonal + usize::from(x != y);
                diagonal = row[j + 1];
                row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
            }
        }
        row[b.len()]
    };
    let best = known.into_iter().map(|word| (far(word), word)).min()?;
    (best.0 <= 1.max(found.len() / 3)).then_some(best.1)
}
