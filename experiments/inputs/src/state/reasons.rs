//! Why a job waits, from the GPUs that are free at a cluster's instant: what no policy could change.

use std::collections::{BTreeMap, BTreeSet};

use super::jobs::WhyCode;
use super::model::{Holder, KnownJob, Modelled, ModelledNode};
use crate::trace::{Row, plain};

/// Why a job waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Waits {
    /// In the words of `why.code` of a document.
    pub code: &'static str,
    /// For people.
    pub text: String,
    /// The running jobs whose ends make room for it, the first as they are taken to end: none of them can be left out.
    pub after: Vec<String>,
}

/// What jobs wait for on one cluster.
pub struct Reasons<'a> {
    of: &'a Modelled,
    /// GPUs of each node that no job holds; none of a node that takes no jobs.
    free: Vec<u32>,
    /// The jobs that hold GPUs, the first as they are taken to end.
    ends: Vec<&'a Holder>,
    /// Kinds of GPU: a gang is on one.
    kinds: BTreeSet<&'a str>,
    /// By what jobs ask for: there are few such shapes.
    known: BTreeMap<(u32, u32, Vec<String>), Option<Waits>>,
}

impl Modelled {
    /// What its jobs wait for, given how many seconds from now on each of those that run ends, by its name.
    pub fn reasons(&self, left: impl Fn(&str) -> f64) -> Reasons<'_> {
        let mut ends: Vec<(f64, &Holder)> = self.holders.iter().map(|holder| (left(&holder.job), holder)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1.since, &a.1.job).cmp(&(b.1.since, &b.1.job))));
        let mut free: Vec<u32> = self.nodes.iter().map(|node| node.gpus).collect();
        self.holders.iter().flat_map(|holder| &holder.on).for_each(|(node, _)| free[*node] -= 1);
        let closed = |node: &ModelledNode| node.closed.iter().any(|(from, to)| *from <= self.at && self.at < *to);
        free.iter_mut().zip(&self.nodes).filter(|(_, node)| closed(node)).for_each(|(free, _)| *free = 0);
        let (ends, kinds) = (ends.into_iter().map(|(_, holder)| holder).collect(), self.nodes.iter());
        Reasons { of: self, free, ends, kinds: kinds.map(|node| node.kind.as_str()).collect(), known: BTreeMap::new() }
    }
}

/// The room for a gang on the nodes of one kind, as running jobs end.
struct Room<'a> {
    of: &'a Modelled,
    free: Vec<u32>,
    /// GPUs that count at a time on a node, and how often at most: those of its shape count once.
    each: (u32, u32),
    kind: &'a str,
    /// How often `each` is there.
    count: u32,
}

/// How often so many GPUs at a time count among free ones of a node.
fn times((each, most): (u32, u32), free: u32) -> u32 {
    (free / each).min(most)
}

impl Room<'_> {
    /// Jobs end, or begin again.
    fn change(&mut self, holder: &Holder, ends: bool) {
        for (node, _) in holder.on.iter().filter(|(node, _)| self.of.nodes[*node].kind == self.kind) {
            let free = &mut self.free[*node];
            let before = times(self.each, *free);
            *free = if ends { *free + 1 } else { *free - 1 };
            self.count = self.count + times(self.each, *free) - before;
        }
    }
}

impl Reasons<'_> {
    /// Why a waiting job waits; none: as far as free GPUs go it could start.
    pub fn waits(&mut self, row: &Row) -> Option<Waits> {
        let shape = (row.gpus, row.gpus_per_node, row.kinds.clone());
        if let Some(known) = self.known.get(&shape) {
            return known.clone();
        }
        let found = self.find(row);
        self.known.insert(shape, found.clone());
        found
    }

    fn find(&self, row: &Row) -> Option<Waits> {
        let kinds: Vec<&str> = self.kinds.iter().copied().filter(|kind| suits(row, kind)).collect();
        let (each, need) = match row.gpus_per_node {
            0 => ((1, u32::MAX), row.gpus),
            each => ((each, 1), row.gpus / each),
        };
        let room = |kind| self.room(kind, each);
        if kinds.iter().any(|kind| room(kind).count >= need) {
            return None;
        }
        // On the kind where there is room first.
        let best = kinds.iter().filter_map(|kind| self.after(room(kind), need)).min_by_key(|(enough, _)| *enough);
        let free = |kind: &&str| self.of_kind(kind).map(|(_, free)| *free).sum::<u32>();
        let (count, most) =
            kinds.iter().map(|kind| (free(kind), self.of_kind(kind).map(|(_, free)| *free).max())).max()?;
        let (code, text) = match best {
            None => ("never", format!("{} GPUs as it asks for them are not there", row.gpus)),
            _ if count < row.gpus => ("no-free-gpus", format!("{count} of {} GPUs free", row.gpus)),
            _ => ("fragmented", format!("{count} GPUs free, in pieces of at most {}", most.unwrap_or(0))),
        };
        Some(Waits { code, text, after: best.map_or_else(Vec::new, |(_, after)| after) })
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (&ModelledNode, &u32)> {
        self.of.nodes.iter().zip(&self.free).filter(move |(node, _)| node.kind == kind)
    }

    fn room<'a>(&'a self, kind: &'a str, each: (u32, u32)) -> Room<'a> {
        let count = self.of_kind(kind).map(|(_, free)| times(each, *free)).sum();
        Room { of: self.of, free: self.free.clone(), each, kind, count }
    }

    /// The jobs whose ends make room for one, and how many end until then.
    fn after(&self, mut room: Room<'_>, need: u32) -> Option<(usize, Vec<String>)> {
        let mut enough = 0;
        while room.count < need {
            room.change(self.ends.get(enough)?, true);
            enough += 1;
        }
        let mut needed = Vec::new();
        for holder in &self.ends[..enough] {
            room.change(holder, false);
            if room.count < need {
                room.change(holder, true);
                needed.push(holder.job.clone());
            }
        }
        Some((enough, needed))
    }
}

fn suits(row: &Row, kind: &str) -> bool {
    row.kinds.is_empty() || row.kinds.iter().any(|known| known == kind)
}

impl KnownJob {
    /// What the cluster's scheduler says that a job waits for, where that is not of its GPUs: the code of a document, and words.
    pub fn said(&self) -> Option<(&'static str, String)> {
        let why = self.why.as_ref()?;
        let of =
            |word: &str| why.of.as_ref().map_or_else(|| word.to_string(), |of| format!("{word} {}", plain(of.clone())));
        Some(match why.code {
            WhyCode::Quota => ("quota", of("quota")),
            WhyCode::Dependency => ("dependency", of("dependency")),
            WhyCode::NotBefore => ("not-before", "not before a time".into()),
            WhyCode::Reservation => ("reservation", of("reservation")),
            WhyCode::Topology => ("topology", "topology".into()),
            WhyCode::NodeNamed => ("node-named", "a node that it names".into()),
            WhyCode::Licence => ("licence", of("licence")),
            _ => return None,
        })
    }

    /// The word of the cluster's scheduler for why a job waits, where none of ours stands for it.
    pub fn unknown_word(&self) -> Option<String> {
        let why = self.why.as_ref().filter(|why| why.code == WhyCode::Unknown)?;
        why.said.clone().map(plain)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::state::RunTimes;

    #[test]
    fn what_a_job_waits_for_is_named() {
        let node = |name: &str| json!({"name": name, "kind": "A100", "gpus": 4, "state": "up"});
        let runs = |id: &str, node: &str, count: u32, limit: u32| {
            json!({"id": id, "state": "running", "gpus": count, "started_s": -10, "held_s": 10, "limit_s": limit,
                "on": [{"node": node, "count": count}]})
        };
        let waits = |id: &str, gpus: u32, each: u32| {
            json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": 0, "limit_s": 60,
                "nodes": {"gpus_each": each}})
        };
        let document = json!({
            "sandtable": "state@1", "at": "2026-11-20T01:05:32Z", "source": {"kind": "other"},
            "nodes": [node("a"), node("b")], "queues": [], "reservations": [], "unknown": [], "ignored": [],
            "jobs": [runs("long", "a", 2, 900), runs("short", "b", 1, 100), runs("mid", "b", 1, 500),
                waits("one", 1, 1), waits("whole", 4, 4), waits("both", 8, 4)],
        });
        let state = crate::state::of_bytes("s.json".as_ref(), document.to_string().as_bytes()).expect("a state");
        let times = RunTimes { of_limit: 1.0, otherwise: None, without_limits: false };
        let modelled = state.modelled(times).expect("modelled");
        let of = |name: &str| {
            let row = modelled.rows.iter().find(|row| row.name == name).expect("a job");
            let left = |name: &str| {
                modelled.rows.iter().find(|row| row.name == name).map_or(0.0, |row| row.duration.as_secs_f64())
            };
            modelled.reasons(left).waits(row)
        };
        assert_eq!(of("one"), None);
        let whole = of("whole").expect("it waits");
        assert_eq!((whole.code, whole.text.as_str()), ("fragmented", "4 GPUs free, in pieces of at most 2"));
        assert_eq!(whole.after, ["short", "mid"]);
        let both = of("both").expect("it waits");
        assert_eq!((both.code, both.text.as_str()), ("no-free-gpus", "4 of 8 GPUs free"));
        assert_eq!(both.after, ["short", "mid", "long"]);
    }
}
