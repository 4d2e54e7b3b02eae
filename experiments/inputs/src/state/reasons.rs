//! Why a job waits, from the GPUs that are free at a cluster's instant: what no policy could change.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{HostResources, HostUse};

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
    /// What no job holds now.
    free: Free,
    /// What jobs hold, those first that are taken to end first.
    ends: Vec<Holds<'a>>,
    /// Kinds of GPU: a gang is on one.
    kinds: BTreeSet<&'a str>,
    /// By what jobs ask for: there are few such shapes.
    known: BTreeMap<Shape, Option<Waits>>,
}

/// What a job asks for: GPUs in all and of each node, cores and memory, and kinds of GPU.
type Shape = (u32, u32, (u32, u32), Vec<String>);

/// What is free of each node; of one that takes no jobs no GPU.
#[derive(Clone)]
struct Free {
    gpus: Vec<u32>,
    /// What is not.
    taken: Vec<HostUse>,
}

/// What a job holds of nodes.
struct Holds<'a> {
    job: &'a str,
    on: Vec<(usize, u32, HostResources)>,
}

impl<'a> Holds<'a> {
    fn of(holder: &'a Holder, asked: Option<&Row>) -> Holds<'a> {
        let mut nodes: Vec<usize> = holder.on.iter().map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        let part = |gpus: u32| asked.map_or(HostResources::UNKNOWN, |row| row.host.part(gpus, row.gpus));
        let on = nodes.chunk_by(|a, b| a == b).map(|of| (of[0], of.len() as u32, part(of.len() as u32)));
        let without = holder.node.map(|node| (node, 0, asked.map_or(HostResources::UNKNOWN, |row| row.host)));
        Holds { job: &holder.job, on: on.chain(without).collect() }
    }
}

impl Modelled {
    /// What its jobs wait for, given how many seconds from now on each of those that run ends, by its name.
    pub fn reasons(&self, left: impl Fn(&str) -> f64) -> Reasons<'_> {
        let mut ends: Vec<(f64, &Holder)> = self.holders.iter().map(|holder| (left(&holder.job), holder)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1.since, &a.1.job).cmp(&(b.1.since, &b.1.job))));
        let rows: BTreeMap<&str, &Row> = self.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let rows = |holder: &Holder| rows.get(holder.job.as_str()).copied();
        let ends: Vec<Holds<'_>> = ends.into_iter().map(|(_, holder)| Holds::of(holder, rows(holder))).collect();
        let gpus = self.nodes.iter().map(|node| node.gpus).collect();
        let mut free = Free { gpus, taken: vec![HostUse::default(); self.nodes.len()] };
        for (node, gpus, part) in ends.iter().flat_map(|holds| &holds.on) {
            free.gpus[*node] -= gpus;
            free.taken[*node] += *part;
        }
        let closed = |node: &ModelledNode| node.closed.iter().any(|(from, to)| *from <= self.at && self.at < *to);
        free.gpus.iter_mut().zip(&self.nodes).filter(|(_, node)| closed(node)).for_each(|(free, _)| *free = 0);
        let kinds = self.nodes.iter().map(|node| node.kind.as_str()).collect();
        Reasons { of: self, free, ends, kinds, known: BTreeMap::new() }
    }
}

/// The room for a gang on the nodes of one kind, as running jobs end.
struct Room<'a> {
    of: &'a Modelled,
    free: Free,
    /// GPUs that count at a time on a node, and how often at most: those of its shape count once.
    each: (u32, u32),
    /// What the whole gang takes beside so many GPUs.
    asked: (HostResources, u32),
    kind: &'a str,
    /// How often `each` is there.
    count: u32,
}

impl Room<'_> {
    /// How often GPUs count among the free ones of a node for which there is CPU and memory too.
    fn times(&self, node: usize) -> u32 {
        let ((each, most), (asked, all)) = (self.each, self.asked);
        let gpus = self.of.nodes[node].host.most_gpus(self.free.taken[node], asked, all, self.free.gpus[node]);
        (gpus / each).min(most)
    }

    /// Jobs end, or begin again.
    fn change(&mut self, holds: &Holds<'_>, ends: bool) {
        for (node, gpus, part) in holds.on.iter().filter(|(node, ..)| self.of.nodes[*node].kind == self.kind) {
            let before = self.times(*node);
            let (free, taken) = (&mut self.free.gpus[*node], &mut self.free.taken[*node]);
            if ends {
                *free += gpus;
                *taken -= *part;
            } else {
                *free -= gpus;
                *taken += *part;
            }
            self.count = self.count + self.times(*node) - before;
        }
    }
}

/// The CPU of what is asked, the memory of it, and none of it.
fn parts_of(asked: HostResources) -> [HostResources; 3] {
    [HostResources { memory_mib: 0, ..asked }, HostResources { cpu_milli: 0, ..asked }, HostResources::UNKNOWN]
}

impl Reasons<'_> {
    /// Why a waiting job waits; none: as far as free GPUs, CPU and memory go it could start.
    pub fn waits(&mut self, row: &Row) -> Option<Waits> {
        let host = (row.host.cpu_milli, row.host.memory_mib);
        let shape = (row.gpus, row.gpus_per_node, host, row.kinds.clone());
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
        let room = |kind, asked| self.room(kind, each, (asked, row.gpus));
        let count = |asked: HostResources| kinds.iter().map(|kind| room(kind, asked).count).max().unwrap_or(0);
        if count(row.host) >= need {
            return None;
        }
        // On the kind where there is room first.
        let best =
            kinds.iter().filter_map(|kind| self.after(room(kind, row.host), need)).min_by_key(|(enough, _)| *enough);
        let free = |kind: &&str| self.of_kind(kind).map(|(_, free)| *free).sum::<u32>();
        let most = |kind: &&str| self.of_kind(kind).map(|(_, free)| *free).max();
        let (free, most, kind) = kinds.iter().map(|kind| (free(kind), most(kind), *kind)).max()?;
        let [cpu, memory, none] = parts_of(row.host);
        let (code, text) = match best {
            None if kinds.iter().any(|kind| self.after(room(kind, none), need).is_some()) => {
                ("never", format!("{} GPUs with as much CPU and memory as it asks for are not there", row.gpus))
            }
            None => ("never", format!("{} GPUs as it asks for them are not there", row.gpus)),
            _ if count(none) >= need => {
                let (code, what) = match (count(cpu) >= need, count(memory) >= need) {
                    (true, false) => ("no-free-memory", "memory"),
                    (true, true) => ("no-free-cpus", "CPUs and memory"),
                    (false, _) => ("no-free-cpus", "CPUs"),
                };
                (code, format!("{free} GPUs free, {what} for {} of them", room(kind, row.host).count * each.0))
            }
            _ if free < row.gpus => ("no-free-gpus", format!("{free} of {} GPUs free", row.gpus)),
            _ => ("fragmented", format!("{free} GPUs free, in pieces of at most {}", most.unwrap_or(0))),
        };
        Some(Waits { code, text, after: best.map_or_else(Vec::new, |(_, after)| after) })
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = (usize, &u32)> {
        let nodes = self.of.nodes.iter().zip(&self.free.gpus).enumerate();
        nodes.filter(move |(_, (node, _))| node.kind == kind).map(|(at, (_, free))| (at, free))
    }

    fn room<'a>(&'a self, kind: &'a str, each: (u32, u32), asked: (HostResources, u32)) -> Room<'a> {
        let mut room = Room { of: self.of, free: self.free.clone(), each, asked, kind, count: 0 };
        room.count = self.of_kind(kind).map(|(node, _)| room.times(node)).sum();
        room
    }

    /// The jobs whose ends make room for one, and how many end until then.
    fn after(&self, mut room: Room<'_>, need: u32) -> Option<(usize, Vec<String>)> {
        let mut enough = 0;
        while room.count < need {
            room.change(self.ends.get(enough)?, true);
            enough += 1;
        }
        let mut needed = Vec::new();
        for holds in &self.ends[..enough] {
            room.change(holds, false);
            if room.count < need {
                room.change(holds, true);
                needed.push(holds.job.to_string());
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
