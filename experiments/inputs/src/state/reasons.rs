//! Why a job waits, from the GPUs that are free at a cluster's instant: what no policy could change.

use std::collections::{BTreeMap, BTreeSet};

use sandtable_hardware::{HostResources, HostUse, Instant, Job};

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
    /// Nodes that take no jobs now, and in how many seconds they will.
    opens: Vec<(f64, usize)>,
    /// What jobs hold, those first that are taken to end first.
    ends: Vec<Holds<'a>>,
    /// Kinds of GPU: a gang is on one.
    kinds: BTreeSet<&'a str>,
    /// By what jobs ask for: there are few such shapes.
    known: BTreeMap<Shape, Option<Waits>>,
}

/// What a job asks for: GPUs in all and of each node, thousandths of each, cores and memory, and kinds of GPU.
type Shape = (u32, u32, u32, (u32, u32), Vec<String>);

/// What is free of each node.
#[derive(Clone)]
struct Free {
    /// GPUs of which no job holds anything.
    gpus: Vec<u32>,
    /// Thousandths that jobs hold of GPUs of which they hold a part.
    parts: BTreeMap<(usize, u32), u32>,
    /// CPU and memory that is not.
    taken: Vec<HostUse>,
    /// Nodes that take no jobs.
    closed: Vec<bool>,
}

/// What a job holds of nodes.
struct Holds<'a> {
    job: &'a str,
    /// In how many seconds it ends.
    left: f64,
    /// Whole GPUs by node, and CPU and memory with them.
    on: Vec<(usize, u32, HostResources)>,
    /// A part of a GPU, where it has that.
    part: Option<((usize, u32), u32)>,
}

impl Free {
    fn take(&mut self, holds: &Holds<'_>) {
        for (node, gpus, host) in &holds.on {
            self.gpus[*node] = self.gpus[*node].saturating_sub(*gpus);
            self.taken[*node] += *host;
        }
        if let Some((gpu, share)) = holds.part {
            let held = self.parts.entry(gpu).or_default();
            let opens = *held == 0;
            *held += share;
            self.gpus[gpu.0] = self.gpus[gpu.0].saturating_sub(u32::from(opens));
        }
    }

    fn give_back(&mut self, holds: &Holds<'_>) {
        for (node, gpus, host) in &holds.on {
            self.gpus[*node] += gpus;
            self.taken[*node] -= *host;
        }
        if let Some((gpu, share)) = holds.part {
            let left = self.parts.get(&gpu).copied().unwrap_or(0).saturating_sub(share);
            if left > 0 {
                self.parts.insert(gpu, left);
            } else {
                self.parts.remove(&gpu);
                self.gpus[gpu.0] += 1;
            }
        }
    }

    /// GPUs of a node that a job may have, with room for so many thousandths.
    fn with_room(&self, node: usize, share: u32) -> u32 {
        if self.closed[node] {
            return 0;
        }
        let used = self.parts.range((node, 0)..=(node, u32::MAX));
        let room = used.filter(|(_, used)| **used + share <= Job::WHOLE).count() as u32;
        self.gpus[node] + room
    }
}

impl<'a> Holds<'a> {
    fn of(left: f64, holder: &'a Holder, asked: Option<&Row>) -> Holds<'a> {
        let mut nodes: Vec<usize> = holder.on.iter().map(|(node, _)| *node).collect();
        nodes.sort_unstable();
        let part = |gpus: u32| asked.map_or(HostResources::UNKNOWN, |row| row.host.part(gpus, row.gpus));
        let on = nodes.chunk_by(|a, b| a == b).map(|of| (of[0], of.len() as u32, part(of.len() as u32)));
        let without = holder.node.map(|node| (node, 0, asked.map_or(HostResources::UNKNOWN, |row| row.host)));
        let share = asked.map(|row| row.share).filter(|share| *share < Job::WHOLE);
        let Some((share, gpu)) = share.zip(holder.on.first().copied()) else {
            return Holds { job: &holder.job, left, on: on.chain(without).collect(), part: None };
        };
        Holds { job: &holder.job, left, on: vec![(gpu.0, 0, part(1))], part: Some((gpu, share)) }
    }
}

impl Modelled {
    /// What its jobs wait for, given how many seconds from now on each of those that run ends, by its name.
    pub fn reasons(&self, left: impl Fn(&str) -> f64) -> Reasons<'_> {
        let mut ends: Vec<(f64, &Holder)> = self.holders.iter().map(|holder| (left(&holder.job), holder)).collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| (a.1.since, &a.1.job).cmp(&(b.1.since, &b.1.job))));
        let rows: BTreeMap<&str, &Row> = self.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let rows = |holder: &Holder| rows.get(holder.job.as_str()).copied();
        let ends: Vec<Holds<'_>> =
            ends.into_iter().map(|(left, holder)| Holds::of(left, holder, rows(holder))).collect();
        let gpus = self.nodes.iter().map(|node| node.gpus).collect();
        let now = |(from, to): &(Instant, Instant)| *from <= self.at && self.at < *to;
        let closed: Vec<bool> = self.nodes.iter().map(|node| node.closed.iter().any(now)).collect();
        let seconds = |to: Instant| to.saturating_since(self.at).as_secs_f64();
        let shut = (0..self.nodes.len()).filter(|node| closed[*node]);
        let opens = shut.filter_map(|node| Some((seconds(self.nodes[node].opens(self.at)?), node)));
        let mut opens: Vec<(f64, usize)> = opens.collect();
        opens.sort_by(|a, b| a.0.total_cmp(&b.0));
        let taken = vec![HostUse::default(); self.nodes.len()];
        let mut free = Free { gpus, parts: BTreeMap::new(), taken, closed };
        ends.iter().for_each(|holds| free.take(holds));
        let kinds = self.nodes.iter().map(|node| node.kind.as_str()).collect();
        Reasons { of: self, free, opens, ends, kinds, known: BTreeMap::new() }
    }
}

impl ModelledNode {
    /// When a node takes jobs again that takes none at an instant; none: never.
    fn opens(&self, mut at: Instant) -> Option<Instant> {
        while let Some((_, to)) = self.closed.iter().find(|(from, to)| *from <= at && at < *to) {
            at = *to;
        }
        (at < Instant::END).then_some(at)
    }
}

/// The room for a gang on the nodes of one kind, as running jobs end.
struct Room<'a> {
    of: &'a Modelled,
    free: Free,
    /// GPUs that count at a time on a node, and how often at most: those of its shape count once.
    each: (u32, u32),
    /// Thousandths of each.
    share: u32,
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
        // A job without GPUs counts as one of one GPU, of which a node that takes jobs has one.
        let free = if all == 0 { u32::from(!self.free.closed[node]) } else { self.free.with_room(node, self.share) };
        let gpus = self.of.nodes[node].host.most_gpus(self.free.taken[node], asked, all.max(1), free);
        (gpus / each).min(most)
    }

    /// A node takes jobs again.
    fn open(&mut self, node: usize) {
        self.free.closed[node] = false;
        if self.of.nodes[node].kind == self.kind {
            self.count += self.times(node);
        }
    }

    /// Jobs end, or begin again.
    fn change(&mut self, holds: &Holds<'_>, ends: bool) {
        let of_kind = |(node, ..): &&(usize, u32, HostResources)| self.of.nodes[*node].kind == self.kind;
        let nodes: Vec<usize> = holds.on.iter().filter(of_kind).map(|(node, ..)| *node).collect();
        let times = |room: &Room<'_>| nodes.iter().map(|node| room.times(*node)).sum::<u32>();
        let before = times(self);
        if ends {
            self.free.give_back(holds);
        } else {
            self.free.take(holds);
        }
        self.count = self.count + times(self) - before;
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
        let shape = (row.gpus, row.gpus_per_node, row.share, host, row.kinds.clone());
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
            0 if row.gpus == 0 => ((1, 1), 1),
            0 => ((1, u32::MAX), row.gpus),
            each => ((each, 1), row.gpus / each),
        };
        let room = |kind, asked| self.room(kind, (each, row.share), (asked, row.gpus));
        let count = |asked: HostResources| kinds.iter().map(|kind| room(kind, asked).count).max().unwrap_or(0);
        if count(row.host) >= need {
            return None;
        }
        // On the kind where there is room first.
        let best =
            kinds.iter().filter_map(|kind| self.after(room(kind, row.host), need)).min_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, true, after)) = best {
            let text = "nodes that take no jobs now are to take them again".to_string();
            return Some(Waits { code: "reservation", text, after });
        }
        let free = |kind: &&str| self.of_kind(kind).map(|node| self.free.with_room(node, Job::WHOLE)).sum::<u32>();
        let most = |kind: &&str| self.of_kind(kind).map(|node| self.free.with_room(node, Job::WHOLE)).max();
        let (free, most, kind) = kinds.iter().map(|kind| (free(kind), most(kind), *kind)).max()?;
        let [cpu, memory, none] = parts_of(row.host);
        let (code, text) = match best {
            None if row.gpus == 0 => ("never", "no node has as much CPU and memory as it asks for".to_string()),
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
                let there = match row.share {
                    _ if row.gpus == 0 => {
                        let text = format!("no node has {what} for it free");
                        return Some(Waits { code, text, after: best.map_or_else(Vec::new, |(.., after)| after) });
                    }
                    Job::WHOLE => format!("{free} GPUs free"),
                    share => format!("{} GPUs with {share} thousandths free", room(kind, none).count),
                };
                (code, format!("{there}, {what} for {} of them", room(kind, row.host).count * each.0))
            }
            _ if row.share < Job::WHOLE => ("no-free-gpus", format!("no GPU has {} thousandths free", row.share)),
            _ if free < row.gpus => ("no-free-gpus", format!("{free} of {} GPUs free", row.gpus)),
            _ => ("fragmented", format!("{free} GPUs free, in pieces of at most {}", most.unwrap_or(0))),
        };
        Some(Waits { code, text, after: best.map_or_else(Vec::new, |(.., after)| after) })
    }

    fn of_kind(&self, kind: &str) -> impl Iterator<Item = usize> {
        let nodes = self.of.nodes.iter().enumerate();
        nodes.filter(move |(_, node)| node.kind == kind).map(|(at, _)| at)
    }

    fn room<'a>(&'a self, kind: &'a str, (each, share): ((u32, u32), u32), asked: (HostResources, u32)) -> Room<'a> {
        let mut room = Room { of: self.of, free: self.free.clone(), each, share, asked, kind, count: 0 };
        room.count = self.of_kind(kind).map(|node| room.times(node)).sum();
        room
    }

    /// In how many seconds there is room for a job, as others end and nodes take jobs again, whether it is a node that makes it, and the jobs of which none could go on for that.
    fn after(&self, mut room: Room<'_>, need: u32) -> Option<(f64, bool, Vec<String>)> {
        let (mut ended, mut opened, mut at, mut opens) = (0, 0, 0.0, false);
        while room.count < need {
            let end = self.ends.get(ended);
            match (end, self.opens.get(opened)) {
                (_, Some((seconds, node))) if end.is_none_or(|end| *seconds <= end.left) => {
                    room.open(*node);
                    (opened, at, opens) = (opened + 1, *seconds, true);
                }
                (Some(end), _) => {
                    room.change(end, true);
                    (ended, at, opens) = (ended + 1, end.left, false);
                }
                (None, _) => return None,
            }
        }
        let mut needed = Vec::new();
        for holds in &self.ends[..ended] {
            room.change(holds, false);
            if room.count < need {
                room.change(holds, true);
                needed.push(holds.job.to_string());
            }
        }
        Some((at, opens, needed))
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
    use sandtable_core::units::Span;
    use serde_json::{Value, json};

    use super::Waits;
    use crate::state::{Change, Modelled, RunTimes, of_bytes};

    fn modelled(jobs: &Value, changes: &[Change]) -> Modelled {
        let node = |name: &str| json!({"name": name, "kind": "A100", "gpus": 4, "state": "up"});
        let document = json!({
            "sandtable": "state@1", "at": "2026-11-20T01:05:32Z", "source": {"kind": "other"},
            "nodes": [node("a"), node("b")], "queues": [], "reservations": [], "unknown": [], "ignored": [],
            "jobs": jobs,
        });
        let state = of_bytes("s.json".as_ref(), document.to_string().as_bytes()).expect("a state");
        let state = state.changed(changes).expect("changed");
        let times = RunTimes { of_limit: 1.0, otherwise: None, without_limits: false };
        state.modelled(times).expect("modelled")
    }

    fn runs(id: &str, node: &str, (gpus, milli): (u32, u32), limit: u32) -> Value {
        json!({"id": id, "state": "running", "gpus": gpus, "started_s": -10, "held_s": 10, "limit_s": limit,
            "share_milli": milli, "on": [{"node": node, "count": gpus}]})
    }

    fn waits(id: &str, (gpus, milli): (u32, u32), each: u32) -> Value {
        json!({"id": id, "state": "waiting", "gpus": gpus, "submitted_s": 0, "limit_s": 60, "share_milli": milli,
            "nodes": {"gpus_each": each}})
    }

    fn why(of: &Modelled, name: &str) -> Option<Waits> {
        let row = |name: &str| of.rows.iter().find(|row| row.name == name);
        let left = |name: &str| row(name).map_or(0.0, |row| row.duration.as_secs_f64());
        of.reasons(left).waits(row(name).expect("a job"))
    }

    /// The code, the words and the jobs whose ends make room.
    fn said(of: &Modelled, name: &str) -> (&'static str, String, Vec<String>) {
        let waits = why(of, name).expect("it waits");
        (waits.code, waits.text, waits.after)
    }

    const WHOLE: u32 = 1000;

    fn found(code: &'static str, text: &str, after: &[&str]) -> (&'static str, String, Vec<String>) {
        (code, text.to_string(), after.iter().map(|job| (*job).to_string()).collect())
    }

    #[test]
    fn what_a_job_waits_for_is_named() {
        let jobs = json!([
            runs("long", "a", (2, WHOLE), 900),
            runs("short", "b", (1, WHOLE), 100),
            runs("mid", "b", (1, WHOLE), 500),
            waits("one", (1, WHOLE), 1),
            waits("whole", (4, WHOLE), 4),
            waits("both", (8, WHOLE), 4)
        ]);
        let of = modelled(&jobs, &[]);
        assert_eq!(why(&of, "one"), None);
        let whole = found("fragmented", "4 GPUs free, in pieces of at most 2", &["short", "mid"]);
        assert_eq!(said(&of, "whole"), whole);
        assert_eq!(said(&of, "both"), found("no-free-gpus", "4 of 8 GPUs free", &["short", "mid", "long"]));
    }

    /// Two GPUs of `b` have 600 thousandths taken, one all of it, and the fourth is free; on `a` nothing is.
    fn with_parts(more: Value, changes: &[Change]) -> Modelled {
        let mut jobs = vec![
            runs("all", "a", (4, WHOLE), 900),
            runs("early", "b", (1, 600), 100),
            runs("late", "b", (1, 600), 500),
            runs("beside", "b", (1, 400), 300),
            runs("one", "b", (1, WHOLE), 400),
        ];
        jobs.push(more);
        modelled(&Value::from(jobs), changes)
    }

    #[test]
    fn a_part_of_a_gpu_waits_for_one_that_has_room() {
        let part = |milli| with_parts(waits("w", (1, milli), 1), &[]);
        // "early" and "beside" fill a GPU, "late" has another, and the fourth is free.
        assert_eq!((why(&part(300), "w"), why(&part(900), "w")), (None, None));
        let two = with_parts(waits("w", (2, WHOLE), 2), &[]);
        assert_eq!(said(&two, "w"), found("no-free-gpus", "1 of 2 GPUs free", &["early", "beside"]));
        // Where the fourth is taken too.
        let full = |milli| {
            let jobs = json!([
                runs("all", "a", (4, WHOLE), 900),
                runs("rest", "b", (2, WHOLE), 900),
                runs("early", "b", (1, 600), 100),
                runs("late", "b", (1, 600), 500),
                waits("w", (1, milli), 1)
            ]);
            modelled(&jobs, &[])
        };
        assert_eq!(why(&full(400), "w"), None);
        assert_eq!(said(&full(500), "w"), found("no-free-gpus", "no GPU has 500 thousandths free", &["early"]));
    }

    #[test]
    fn what_ends_on_a_node_that_takes_no_jobs_makes_no_room() {
        let drained = Change::Drain { node: "b".into(), from: None, to: None };
        let of = with_parts(waits("w", (1, WHOLE), 1), &[drained]);
        assert_eq!(said(&of, "w"), found("no-free-gpus", "0 of 1 GPUs free", &["all"]));
        // What waits for the end of a reservation waits for no job.
        let until = Some(Span(sandtable_hardware::SECOND));
        let of = with_parts(waits("w", (1, WHOLE), 1), &[Change::Drain { node: "b".into(), from: None, to: until }]);
        assert_eq!(said(&of, "w"), found("reservation", "nodes that take no jobs now are to take them again", &[]));
        // All four of its GPUs are free when the last job there has ended, if it takes jobs by then.
        let four = |to: u64| {
            let to = Some(Span(sandtable_hardware::SECOND * to));
            let drains = [("a", None), ("b", to)].map(|(node, to)| Change::Drain { node: node.into(), from: None, to });
            with_parts(waits("w", (4, WHOLE), 4), &drains)
        };
        assert_eq!(said(&four(1), "w"), found("no-free-gpus", "0 of 4 GPUs free", &["early", "beside", "one", "late"]));
        assert_eq!(
            said(&four(9000), "w"),
            found(
                "reservation",
                "nodes that take no jobs now are to take them again",
                &["early", "beside", "one", "late"]
            )
        );
    }
}
