//! Foreign text, made safe to print.

/// Marks that turn the direction of what follows, or begin another line.
pub fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns foreign text as one line of at most `most` characters: characters that move the cursor, set a colour, turn the direction
/// of what follows or begin another line are escaped.
pub fn escape_control_chars(text: &str, most: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count >= most {
            out.push('…');
            break;
        }
        match c {
            c if turns(c) => out.extend(c.escape_unicode()),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}
