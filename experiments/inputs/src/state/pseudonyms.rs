//! Names as pseudonyms, so that a document can be shared: equal names are equal under one salt, and under another they are not.

use std::collections::BTreeMap;

use sandtable_core::digest::{digest, keyed};
use serde_json::{Value, json};

/// What names are of. Each is replaced at all of its places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Named {
    /// Users.
    User,
    /// Accounts.
    Account,
    /// Ids and names of jobs.
    Job,
    /// Queues, partitions and the like.
    Queue,
    /// Nodes, and the domains that they are in.
    Node,
    /// Reservations.
    Reservation,
}

impl Named {
    fn word(self) -> &'static str {
        match self {
            Named::User => "user",
            Named::Account => "account",
            Named::Job => "job",
            Named::Queue => "queue",
            Named::Node => "node",
            Named::Reservation => "reservation",
        }
    }
}

/// Places of names in a document: keys from the top, of every element of a list.
const PLACES: [(Named, &[&str]); 31] = [
    (Named::User, &["jobs", "user"]),
    (Named::User, &["reservations", "users"]),
    (Named::User, &["queues", "who", "users"]),
    (Named::User, &["associations", "user"]),
    (Named::Account, &["jobs", "account"]),
    (Named::Account, &["associations", "account"]),
    (Named::Account, &["associations", "within"]),
    (Named::Account, &["reservations", "accounts"]),
    (Named::Account, &["queues", "who", "accounts"]),
    (Named::Account, &["queues", "who", "groups"]),
    (Named::Job, &["jobs", "id"]),
    (Named::Job, &["jobs", "name"]),
    (Named::Job, &["jobs", "after", "job"]),
    (Named::Job, &["jobs", "array", "id"]),
    (Named::Job, &["jobs", "together"]),
    (Named::Job, &["refused", "id"]),
    (Named::Queue, &["queues", "name"]),
    (Named::Queue, &["queues", "parent"]),
    (Named::Queue, &["queues", "preempts"]),
    (Named::Queue, &["queues", "charges"]),
    (Named::Queue, &["queues", "who", "qos"]),
    (Named::Queue, &["jobs", "queues"]),
    (Named::Queue, &["jobs", "charges"]),
    (Named::Queue, &["nodes", "queues"]),
    (Named::Node, &["nodes", "name"]),
    (Named::Node, &["nodes", "levels"]),
    (Named::Node, &["jobs", "on", "node"]),
    (Named::Node, &["jobs", "planned_on"]),
    (Named::Node, &["jobs", "nodes_in"]),
    (Named::Node, &["jobs", "nodes_out"]),
    (Named::Node, &["reservations", "nodes"]),
];
const RESERVATIONS: [&[&str]; 2] = [&["reservations", "name"], &["jobs", "reservation"]];
/// Words of a site's own, which jobs and nodes must share: always replaced.
const FEATURES: [&[&str]; 2] = [&["nodes", "features"], &["jobs", "features"]];
/// Free text, which may hold any name: always left out.
const FREE: [&[&str]; 4] =
    [&["nodes", "reason"], &["jobs", "why", "said"], &["jobs", "why", "of"], &["refused", "why"]];

/// Digits of a pseudonym: of a million names two are alike with a probability of 0.002.
const DIGITS: usize = 12;

/// Replaces names of a document by pseudonyms.
///
/// # Errors
/// Two names with one pseudonym.
pub fn pseudonymise(document: &mut Value, what: &[Named], salt: &[u8]) -> Result<(), String> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut replace = |word: &str, value: &mut Value| {
        let Some(name) = value.as_str() else { return Ok(()) };
        let hash = keyed("sandtable state pseudonyms v1", salt, format!("{word}\0{name}").as_bytes());
        let pseudonym = format!("{}-{}", &word[..1], &hash[..DIGITS]);
        if let Some(other) = known.insert(pseudonym.clone(), name.to_string()).filter(|other| other != name) {
            return Err(format!("{name:?} and {other:?} have one pseudonym: take another salt"));
        }
        *value = pseudonym.into();
        Ok(())
    };
    for (named, path) in PLACES.iter().filter(|(named, _)| what.contains(named)) {
        each(document, path, &mut |value| replace(named.word(), value))?;
    }
    for path in RESERVATIONS.iter().filter(|_| what.contains(&Named::Reservation)) {
        each(document, path, &mut |value| replace(Named::Reservation.word(), value))?;
    }
    for path in FEATURES {
        each(document, path, &mut |value| replace("feature", value))?;
    }
    for path in FREE {
        each(document, path, &mut |value| {
            *value = if path == ["refused", "why"] { "left out".into() } else { Value::Null };
            Ok(())
        })?;
    }
    let of: Vec<&str> = what.iter().map(|named| named.word()).collect();
    // Whether two documents have the same salt shows, and not which.
    document["source"]["pseudonyms"] = json!({"method": format!("blake3, salt {}", &digest(salt)[..8]), "of": of});
    *document = super::lean::lean(std::mem::take(document));
    Ok(())
}

/// Does something with every text at a path.
fn each(
    value: &mut Value,
    path: &[&str],
    with: &mut dyn FnMut(&mut Value) -> Result<(), String>,
) -> Result<(), String> {
    match (value, path) {
        (Value::Array(all), path) => all.iter_mut().try_for_each(|value| each(value, path, with)),
        (Value::Object(fields), [key, rest @ ..]) => {
            fields.get_mut(*key).map_or(Ok(()), |value| each(value, rest, with))
        }
        (value @ Value::String(_), []) => with(value),
        _ => Ok(()),
    }
}
