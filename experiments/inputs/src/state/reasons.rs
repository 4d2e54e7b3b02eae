//! Why a job waits, from the GPUs that are free at a cluster's instant: what no policy could change.

use std::collections::BTreeMap;

use sandtable_hardware::Duration;

use super::jobs::WhyCode;
use super::model::{Holder, KnownJob, Modelled};
use crate::trace::Row;

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
    /// GPUs of each node that no job holds.
    free: Vec<u32>,
    /// The jobs that hold GPUs, the first as they are taken to end.
    ends: Vec<&'a Holder>,
    /// By what jobs ask for: there are few such shapes.
    known: BTreeMap<(u32, u32, Vec<String>), Option<Waits>>,
}

impl Modelled {
    /// What its jobs wait for, given how long each of those that run is taken to run in all.
    pub fn reasons(&self, run_time: impl Fn(&Row) -> Duration) -> Reasons<'_> {
        let rows: BTreeMap<&str, &Row> = self.rows.iter().map(|row| (row.name.as_str(), row)).collect();
        let left =
            |of: &Holder| rows.get(of.job.as_str()).map_or(Duration::ZERO, |row| run_time(row).saturating_sub(of.done));
        let mut ends: Vec<&Holder> = self.holders.iter().collect();
        ends.sort_by_cached_key(|holder| (left(holder), holder.since));
        let mut free: Vec<u32> = self.nodes.iter().map(|node| node.gpus).collect();
        self.holders.iter().flat_map(|holder| &holder.on).for_each(|(node, _)| free[*node] -= 1);
        Reasons { of: self, free, ends, known: BTreeMap::new() }
    }
}

impl Reasons<'_> {
    /// Why a waiting job waits; none: as far as free GPUs go it could start, and what its scheduler says is not in the model.
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
        if self.fits(row, &self.free) {
            return None;
        }
        let suited = || self.of.nodes.iter().zip(&self.free).filter(|(node, _)| suits(row, &node.kind));
        let count: u32 = suited().map(|(_, free)| *free).sum();
        let after = self.after(row);
        Some(match count < row.gpus {
            true => Waits { code: "no-free-gpus", text: format!("{count} of {} GPUs free", row.gpus), after },
            false => {
                let most = suited().map(|(_, free)| *free).max().unwrap_or(0);
                Waits { code: "fragmented", text: format!("{count} GPUs free, in pieces of at most {most}"), after }
            }
        })
    }

    /// The jobs whose ends make room for one.
    fn after(&self, row: &Row) -> Vec<String> {
        let fits = |ended: &[&Holder]| {
            let mut free = self.free.clone();
            ended.iter().flat_map(|holder| &holder.on).for_each(|(node, _)| free[*node] += 1);
            self.fits(row, &free)
        };
        if !fits(&self.ends) {
            return Vec::new();
        }
        // More ends make more room.
        let (mut few, mut enough) = (0, self.ends.len());
        while few + 1 < enough {
            let between = few.midpoint(enough);
            *if fits(&self.ends[..between]) { &mut enough } else { &mut few } = between;
        }
        let mut needed = self.ends[..enough].to_vec();
        let mut at = 0;
        while at < needed.len() {
            let other = needed.remove(at);
            if !fits(&needed) {
                needed.insert(at, other);
                at += 1;
            }
        }
        needed.iter().map(|holder| holder.job.clone()).collect()
    }

    /// Whether a job has room in what is free of each node.
    fn fits(&self, row: &Row, free: &[u32]) -> bool {
        let suited = self.of.nodes.iter().zip(free).filter(|(node, _)| suits(row, &node.kind));
        match row.gpus_per_node {
            0 => suited.map(|(_, free)| *free).sum::<u32>() >= row.gpus,
            each => suited.map(|(_, free)| free / each).sum::<u32>() >= row.gpus / each,
        }
    }
}

fn suits(row: &Row, kind: &String) -> bool {
    row.kinds.is_empty() || row.kinds.contains(kind)
}

impl KnownJob {
    /// What the cluster's scheduler says that a job waits for, where that is not of its GPUs.
    pub fn said(&self) -> Option<String> {
        let why = self.why.as_ref()?;
        let of = why.of.as_ref().map_or_else(String::new, |of| format!(" {of}"));
        Some(match why.code {
            WhyCode::Quota => format!("quota{of}"),
            WhyCode::Dependency => format!("dependency{of}"),
            WhyCode::NotBefore => "not before".into(),
            WhyCode::Reservation => format!("reservation{of}"),
            WhyCode::Topology => "topology".into(),
            WhyCode::NodeNamed => "a node that it names".into(),
            WhyCode::Licence => format!("licence{of}"),
            _ => return None,
        })
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
            modelled.reasons(|row| row.duration).waits(row)
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
