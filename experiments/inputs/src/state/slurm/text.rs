//! What `scontrol show … -o` prints: a record a line, `Key=value` one after the other. Values may hold blanks: one ends where what looks
//! like a key begins, and a user's own text, as the name of a job, where a key that is known does.

use std::collections::{BTreeMap, BTreeSet};

/// One record: its fields in order, some of them several times.
#[derive(Clone, Debug)]
pub(super) struct Text<'a>(Vec<(&'a str, &'a str)>);

/// What Slurm prints where there is nothing.
const NOTHING: [&str; 8] = ["", "(null)", "N/A", "None", "NONE", "none", "Unknown", "UNLIMITED"];

impl<'a> Text<'a> {
    /// A field; none where it says nothing.
    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.all(key).next().filter(|value| !NOTHING.contains(value))
    }

    /// All fields of a name, in order, empty ones included.
    pub(super) fn all(&self, key: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Names and values in order.
    pub(super) fn fields(&self) -> &[(&'a str, &'a str)] {
        &self.0
    }

    /// A field that is a number.
    pub(super) fn number(&self, key: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.get(key) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| format!("{key}: expected a number, found {text:?}"))
    }

    /// A field that is an instant, seconds after `at`.
    pub(super) fn after(&self, key: &str, at: jiff::Timestamp) -> Result<Option<f64>, String> {
        let Some(text) = self.get(key) else { return Ok(None) };
        let time: jiff::civil::DateTime =
            text.parse().map_err(|_| format!("{key}: expected a time as 2026-11-22T01:04:53, found {text:?}"))?;
        let time = jiff::tz::TimeZone::UTC.to_timestamp(time).map_err(|error| format!("{key}: {error}"))?;
        Ok(Some(time.duration_since(at).as_secs_f64()))
    }

    /// A field that is a span, in seconds.
    pub(super) fn span(&self, key: &str) -> Result<Option<f64>, String> {
        // A job that began after the controller's clock has run for an INVALID time.
        let said = self.get(key).filter(|text| !matches!(*text, "Partition_Limit" | "INVALID"));
        let Some(text) = said else { return Ok(None) };
        span(text).map(Some).ok_or_else(|| format!("{key}: expected a time as 1-02:03:04, found {text:?}"))
    }
}

/// `[D-]H:M:S` in seconds.
pub(super) fn span(text: &str) -> Option<f64> {
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let clock = match parts[..] {
        [hours, minutes, seconds] => hours * 3600.0 + minutes * 60.0 + seconds,
        [minutes, seconds] => minutes * 60.0 + seconds,
        _ => return None,
    };
    Some(days.parse::<f64>().ok()? * 86_400.0 + clock)
}

/// The records of a text, each of which begins a line with `first`; lines that do not go on the one before. `keys` are those that are
/// known; others that look like one are counted in `unknown`.
pub(super) fn records<'a>(
    text: &'a str,
    first: &str,
    keys: &[&str],
    unknown: &mut BTreeMap<String, u32>,
) -> Vec<Text<'a>> {
    let keys: BTreeSet<&str> = keys.iter().copied().collect();
    let mut records: Vec<Text<'a>> = Vec::new();
    for line in text.lines() {
        if line.strip_prefix(first).is_some_and(|rest| rest.starts_with('=')) {
            records.push(Text(Vec::new()));
        }
        let Some(Text(fields)) = records.last_mut() else { continue };
        let (mut begins, mut at) = (Vec::new(), 0);
        for word in line.split(' ') {
            if let Some((key, _)) = word.split_once('=') {
                let last = begins.last().map(|(_, key)| *key);
                if last == Some("JobName") && !AFTER_NAME.contains(&key) {
                    // Part of the name.
                } else if keys.contains(key) {
                    begins.push((at, key));
                } else if is_key(key) && !is_free(last) {
                    begins.push((at, key));
                    *unknown.entry(key.to_string()).or_default() += 1;
                }
            }
            at += word.len() + 1;
        }
        let ends = begins.iter().skip(1).map(|(at, _)| *at).chain([line.len() + 1]);
        for ((at, key), end) in begins.iter().zip(ends) {
            fields.push((key, line[at + key.len() + 1..end - 1].trim()));
        }
    }
    records
}

/// What Slurm prints after the name of a job, in which its user may have written any other key.
const AFTER_NAME: [&str; 2] = ["UserId", "HetJobIdSet"];

/// Whether a word looks like a key of Slurm's.
fn is_key(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '/' | '.'))
}

/// Whether the value of a key is a user's or a system's own text, in which anything may look like a key.
fn is_free(key: Option<&str>) -> bool {
    matches!(
        key,
        Some(
            "JobName"
                | "Comment"
                | "AdminComment"
                | "SystemComment"
                | "Command"
                | "WorkDir"
                | "Reason"
                | "OS"
                | "StdOut"
                | "StdErr"
                | "StdIn"
                | "Extra"
        )
    )
}

/// The names of a list: `n[0-1,07-09],m3`.
pub(in crate::state) fn hosts(list: &str) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let mut rest = list;
    while !rest.is_empty() {
        let end = end_of_name(rest);
        let (name, after) = rest.split_at(end);
        expand(name, &mut names)?;
        rest = after.strip_prefix(',').unwrap_or(after);
        if names.len() > MOST_HOSTS {
            return Err(format!("more than {MOST_HOSTS} hosts in {list:?}"));
        }
    }
    Ok(names)
}

/// Most names of a list.
const MOST_HOSTS: usize = 1_000_000;

/// Where the first name of a list ends: at a comma outside of brackets.
fn end_of_name(list: &str) -> usize {
    let mut inside = false;
    for (at, c) in list.char_indices() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            ',' if !inside => return at,
            _ => {}
        }
    }
    list.len()
}

fn expand(name: &str, names: &mut Vec<String>) -> Result<(), String> {
    let Some((before, rest)) = name.split_once('[') else {
        names.push(name.to_string());
        return Ok(());
    };
    let (inside, after) = rest.split_once(']').ok_or_else(|| format!("no end of the brackets in {name:?}"))?;
    for (first, last, width) in ranges(inside).ok_or_else(|| format!("expected numbers in the brackets of {name:?}"))? {
        for number in first..=last {
            if names.len() > MOST_HOSTS {
                return Err(format!("more than {MOST_HOSTS} hosts in {name:?}"));
            }
            // Brackets may follow brackets.
            expand(&format!("{before}{number:0width$}{after}"), names)?;
        }
    }
    Ok(())
}

/// `0-1,07-09`: the first and the last of each range, and the digits that they are written with.
pub(super) fn ranges(text: &str) -> Option<Vec<(u64, u64, usize)>> {
    let of = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let width = if first.starts_with('0') { first.len() } else { 0 };
        let range = (first.parse().ok()?, last.parse().ok()?, width);
        (range.0 <= range.1).then_some(range)
    };
    text.split(',').map(of).collect()
}

/// GPUs of a text as `gres:gpu:a100:2` or `gpu:a100:4(IDX:0-3)`: kind, count, and their numbers where it has them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Gres {
    pub(super) kind: Option<String>,
    pub(super) count: u32,
    pub(super) numbers: Vec<u32>,
}

/// The GPUs of a list of generic resources.
pub(super) fn gpus(text: &str) -> Result<Vec<Gres>, String> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (one, after) = rest.split_at(end_of_gres(rest));
        rest = after.strip_prefix(',').unwrap_or(after);
        let (plain, more) = one.split_once('(').unwrap_or((one, ""));
        let plain = plain.strip_prefix("gres:").or_else(|| plain.strip_prefix("gres/")).unwrap_or(plain);
        let words: Vec<&str> = plain.split([':', '=']).collect();
        if words[0] != "gpu" {
            continue;
        }
        let number = |text: &str| text.parse::<u32>().ok();
        let (kind, count) = match words[1..] {
            [] => (None, Some(1)),
            [one] => number(one).map_or((Some(one), Some(1)), |count| (None, Some(count))),
            [kind, count] => (Some(kind), number(count)),
            _ => (None, None),
        };
        let uncounted = more.strip_prefix("CNT:").and_then(|text| text.trim_end_matches(')').parse().ok());
        let count = uncounted.or(count);
        let count = count.ok_or_else(|| format!("expected GPUs as gpu:a100:2, found {one:?}"))?;
        let listed = more.split_once("IDX:").map_or("", |(_, list)| list.trim_end_matches(')'));
        let numbers = match listed {
            "" | "N/A" => Vec::new(),
            list => {
                let ranges = ranges(list).filter(|all| all.iter().all(|range| range.1 < 4096));
                let ranges = ranges.ok_or_else(|| format!("expected numbers of GPUs, found {one:?}"))?;
                ranges.into_iter().flat_map(|(first, last, _)| first as u32..=last as u32).collect()
            }
        };
        found.push(Gres { kind: kind.map(str::to_string), count, numbers });
    }
    Ok(found)
}

/// Where the first of a list of resources ends: at a comma outside of parentheses.
fn end_of_gres(list: &str) -> usize {
    let mut depth = 0;
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    list.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_hosts_are_expanded_with_their_padding() {
        assert_eq!(hosts("n[0-1,07-09],m3").unwrap(), ["n0", "n1", "n07", "n08", "n09", "m3"]);
        assert_eq!(hosts("r[1-2]c[0,2]").unwrap(), ["r1c0", "r1c2", "r2c0", "r2c2"]);
        assert_eq!(hosts("").unwrap(), [""; 0]);
        for wrong in ["n[0-", "n[a]", "n[3-1]", "n[0-99999999]"] {
            assert!(hosts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn gpus_are_counted_in_every_spelling() {
        let of = |text: &str| {
            gpus(text).unwrap().into_iter().map(|gpu| (gpu.kind, gpu.count, gpu.numbers)).collect::<Vec<_>>()
        };
        let a100 = || Some("a100".to_string());
        assert_eq!(of("gpu:a100:4(S:0-1)"), [(a100(), 4, vec![])]);
        assert_eq!(of("gpu:a100:3(IDX:0-1,3)"), [(a100(), 3, vec![0, 1, 3])]);
        assert_eq!(of("gpu:v100:0(IDX:N/A),shard:4"), [(Some("v100".into()), 0, vec![])]);
        assert_eq!(of("gres:gpu:a100:2"), [(a100(), 2, vec![])]);
        assert_eq!(of("gres:gpu"), [(None, 1, vec![])]);
        assert_eq!(of("gpu:3"), [(None, 3, vec![])]);
        assert_eq!(of("gpu:a100(CNT:8)"), [(a100(), 8, vec![])]);
        assert!(gpus("gpu:a100:x").is_err());
    }

    #[test]
    fn a_value_ends_where_a_known_key_begins() {
        let mut unknown = BTreeMap::new();
        let text = "JobId=5 JobName=a b=c Own=2 UserId=u(1) New=3\n   Priority=7\nJobId=6 JobName= Priority=(null)\n";
        let found = records(text, "JobId", &["JobId", "JobName", "UserId", "Priority"], &mut unknown);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].get("JobName"), found[0].get("UserId")), (Some("a b=c Own=2"), Some("u(1)")));
        assert_eq!((found[0].number("Priority"), found[1].number("Priority")), (Ok(Some(7.0)), Ok(None)));
        assert_eq!(unknown, [("New".to_string(), 1)].into());
    }

    #[test]
    fn spans_and_times_are_seconds() {
        assert_eq!(
            [span("1-02:03:04"), span("00:20:00"), span("05:07"), span("x")],
            [Some(93_784.0), Some(1200.0), Some(307.0), None]
        );
        let mut unknown = BTreeMap::new();
        let all = records(
            "JobId=1 StartTime=2026-11-22T01:05:02 TimeLimit=UNLIMITED EndTime=soon",
            "JobId",
            &["JobId", "StartTime", "TimeLimit", "EndTime"],
            &mut unknown,
        );
        let at = "2026-11-22T01:05:32Z".parse().unwrap();
        assert_eq!(all[0].after("StartTime", at), Ok(Some(-30.0)));
        assert_eq!(all[0].span("TimeLimit"), Ok(None));
        assert!(all[0].after("EndTime", at).is_err());
    }
}
