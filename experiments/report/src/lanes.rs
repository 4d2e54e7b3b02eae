//! The timeline of GPUs: a lane each, jobs on it as bars, side by side where several are there at once. Of many GPUs it is a map
//! of how many are held, by nodes and time.
//!
//! Stays too short to be seen are drawn together, so that a page of ten thousand jobs stays a page.

use std::collections::BTreeMap;

use sandtable_hardware::GpuId;
use sandtable_results::reader::rowed;
use sandtable_results::schema::{JobRecord, StayRecord};
use serde::Serialize;
use serde_json::{Value, json};

/// A fleet that has more GPUs is a map.
const MOST_LANES: u32 = 128;
/// Bars that are drawn at most.
const MOST_BARS: usize = 2_000;
/// Places of time, as bars count them.
const TICKS: f64 = 1e5;
/// Rows of a map at most, and its stretches of time.
const MAP: (usize, usize) = (96, 240);

/// The GPUs of one run over time.
#[derive(Serialize)]
pub struct Timeline {
    /// Whose.
    pub policy: String,
    /// Which run.
    pub run: String,
    /// What was left out.
    pub note: String,
    /// What the script draws.
    #[serde(skip)]
    pub data: Value,
}

/// A bar: some stays on one GPU.
#[derive(Clone, Debug, PartialEq)]
struct Bar {
    gpu: GpuId,
    from: f64,
    to: f64,
    /// Which of the bars beside each other.
    row: usize,
    /// Index of the job; none: several short ones.
    job: Option<usize>,
    count: usize,
    /// Whether it is too short to be seen alone.
    short: bool,
}

/// Jobs that timelines name, each once: those of a seed are the same under every policy.
#[derive(Default)]
pub(super) struct Named {
    places: BTreeMap<String, usize>,
    id: Vec<Value>,
    gpus: Vec<Value>,
    submit: Vec<Value>,
}

impl Named {
    /// The place of a job.
    fn place(&mut self, job: &JobRecord) -> usize {
        let key = format!("{} {}", job.job_id, job.submit_s.f64());
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.id.len();
        self.places.insert(key, place);
        self.id.push(json!(job.job_id));
        self.gpus.push(json!(job.gpus));
        self.submit.push(whole(job.submit_s.f64()));
        place
    }

    /// As columns.
    pub(super) fn columns(self) -> Value {
        json!({"id": self.id, "gpus": self.gpus, "submit": self.submit})
    }
}

/// Seconds with as many digits as people read.
fn whole(seconds: f64) -> Value {
    if seconds >= 1000.0 { json!(seconds.round() as u64) } else { json!((seconds * 100.0).round() / 100.0) }
}

/// What the script draws of a run, and what was left out.
pub(super) fn drawing(
    nodes: &[(String, u32)],
    jobs: &[JobRecord],
    stays: &[StayRecord],
    named: &mut Named,
) -> (Value, String) {
    let gpus: u32 = nodes.iter().map(|(_, gpus)| gpus).sum();
    if gpus > MOST_LANES { map(nodes, stays) } else { lanes(nodes, gpus, jobs, stays, named) }
}

/// When the last GPU was let go, in seconds.
fn end(stays: &[StayRecord]) -> f64 {
    stays.iter().map(|stay| stay.to_s).max().unwrap_or_default().f64()
}

/// A lane a GPU. Of a lane each row is a list of three numbers a bar: ticks since the bar before, its ticks, and its job or, below
/// zero, how many short stays it is.
fn lanes(
    nodes: &[(String, u32)],
    gpus: u32,
    jobs: &[JobRecord],
    stays: &[StayRecord],
    named: &mut Named,
) -> (Value, String) {
    let end = end(stays);
    let index: BTreeMap<&str, usize> = jobs.iter().enumerate().map(|(at, row)| (row.job_id.as_str(), at)).collect();
    let (all, rows) = stacked(stays, &index);
    // The least width that leaves few enough bars, as part of the whole.
    let mut least = 1e-4;
    let mut bars = merged(&all, least * end);
    while bars.len() > MOST_BARS && least < 1.0 {
        least *= 2.0;
        bars = merged(&all, least * end);
    }
    let together: usize = bars.iter().filter(|bar| bar.count > 1).map(|bar| bar.count).sum();
    let note = match together {
        0 => String::new(),
        _ => format!("{together} stays too short to be seen are drawn together, in grey"),
    };
    let tick = |seconds: f64| if end > 0.0 { (seconds / end * TICKS).round() as i64 } else { 0 };
    // Jobs that have a bar, in their order.
    let mut told: BTreeMap<usize, usize> = bars.iter().filter_map(|bar| Some((bar.job?, 0))).collect();
    told.values_mut().enumerate().for_each(|(number, at)| *at = number);
    let of = |gpu: u32| {
        let count = rows.get(&GpuId::new(gpu)).copied().unwrap_or(1).max(1);
        let mut lane: Vec<(i64, Vec<i64>)> = vec![(0, Vec::new()); count];
        for bar in bars.iter().filter(|bar| bar.gpu.number() == gpu) {
            let (last, row) = &mut lane[bar.row];
            let (from, to) = (tick(bar.from), tick(bar.to));
            row.extend([from - *last, to - from, bar.job.map_or(-(bar.count as i64), |job| told[&job] as i64)]);
            *last = to;
        }
        lane.into_iter().map(|(_, row)| row).collect::<Vec<_>>()
    };
    let lanes: Vec<Vec<Vec<i64>>> = (0..gpus).map(of).collect();
    let rows: Vec<&JobRecord> = told.keys().map(|job| &jobs[*job]).collect();
    let column = |of: &dyn Fn(&JobRecord) -> Value| rows.iter().map(|row| of(row)).collect::<Vec<Value>>();
    let jobs = json!({
        "of": rows.iter().map(|row| named.place(row)).collect::<Vec<usize>>(),
        "wait": column(&|row| row.wait().map_or(Value::Null, whole)),
        "jct": column(&|row| row.jct().map_or_else(|| json!(row.outcome.to_string()), whole)),
        "preemptions": if rows.iter().all(|row| row.preemptions == 0) { Value::Null } else { column(&|row| json!(row.preemptions)).into() },
    });
    (json!({"end": end, "ticks": TICKS, "nodes": nodes, "lanes": lanes, "jobs": jobs}), note)
}

/// How many of the GPUs of nodes are held, by stretches of time: a character each, `0` to `z`.
fn map(nodes: &[(String, u32)], stays: &[StayRecord]) -> (Value, String) {
    let (most, bins) = MAP;
    let end = end(stays);
    let each = nodes.len().div_ceil(most).max(1);
    let mut row_of: Vec<usize> = Vec::new();
    for (node, (_, gpus)) in nodes.iter().enumerate() {
        row_of.extend(std::iter::repeat_n(node / each, *gpus as usize));
    }
    let rows = nodes.len().div_ceil(each);
    let mut gpus = vec![0.0_f64; rows];
    row_of.iter().for_each(|row| gpus[*row] += 1.0);
    let width = end / bins as f64;
    let mut held = vec![vec![0.0; bins]; rows];
    for stay in stays.iter().filter(|stay| stay.to_s > stay.from_s) {
        let (from, to) = (stay.from_s.f64(), stay.to_s.f64());
        let (first, last) = ((from / width) as usize, ((to / width) as usize).min(bins - 1));
        for row in stay.gpus.0.iter().filter_map(|gpu| row_of.get(gpu.number() as usize)) {
            for (bin, held) in held[*row].iter_mut().enumerate().take(last + 1).skip(first) {
                let (begin, over) = (bin as f64 * width, (bin + 1) as f64 * width);
                *held += (to.min(over) - from.max(begin)).max(0.0) / width;
            }
        }
    }
    let digit = |part: f64| char::from_digit((part.clamp(0.0, 1.0) * 35.0).round() as u32, 36).unwrap_or('z');
    let texts: Vec<String> =
        held.iter().zip(&gpus).map(|(cells, gpus)| cells.iter().map(|held| digit(held / gpus)).collect()).collect();
    let name = |row: usize| match ((row * each), ((row + 1) * each).min(nodes.len()) - 1) {
        (first, last) if first == last => format!("node {first}"),
        (first, last) => format!("{first}–{last}"),
    };
    let names: Vec<String> = (0..rows).map(name).collect();
    let note = match each {
        1 => String::new(),
        _ => format!("a row is {each} nodes"),
    };
    (json!({"end": end, "map": {"rows": texts, "names": names}}), note)
}

/// Every stay on its row of its GPU, and how many rows each GPU needs.
fn stacked(stays: &[StayRecord], index: &BTreeMap<&str, usize>) -> (Vec<Bar>, BTreeMap<GpuId, usize>) {
    let (placed, rows) = rowed(stays);
    let bar = |(stay, gpu, row): (&StayRecord, GpuId, usize)| {
        let job = index.get(stay.job_id.as_str()).copied();
        Bar { gpu, from: stay.from_s.f64(), to: stay.to_s.f64(), row, job, count: 1, short: false }
    };
    (placed.into_iter().map(bar).collect(), rows)
}

/// Bars of at least this length; shorter neighbours of one row become one.
fn merged(bars: &[Bar], least: f64) -> Vec<Bar> {
    let mut sorted: Vec<&Bar> = bars.iter().collect();
    sorted.sort_by(|a, b| a.gpu.cmp(&b.gpu).then(a.row.cmp(&b.row)).then(a.from.total_cmp(&b.from)));
    let mut out: Vec<Bar> = Vec::new();
    for bar in sorted {
        if bar.to - bar.from >= least {
            out.push(bar.clone());
            continue;
        }
        match out.last_mut() {
            // Close enough to the last group of short ones: part of it.
            Some(last) if last.short && (last.gpu, last.row) == (bar.gpu, bar.row) && bar.from - last.to < least => {
                last.to = last.to.max(bar.to);
                last.count += 1;
                last.job = None;
            }
            _ => out.push(Bar { short: true, ..bar.clone() }),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use sandtable_results::schema::{GpuSet, Seconds};

    fn stay(job: &str, from: f64, to: f64, gpus: &[u32]) -> StayRecord {
        let seconds = |x: f64| Seconds((x * 1e6) as u64);
        StayRecord {
            job_id: job.into(),
            from_s: seconds(from),
            to_s: seconds(to),
            gpus: GpuSet(GpuId::list(gpus.to_vec())),
        }
    }

    #[test]
    fn whoever_is_there_at_once_stands_side_by_side() {
        let stays = [stay("a", 0.0, 10.0, &[0]), stay("b", 5.0, 20.0, &[0, 1]), stay("c", 10.0, 12.0, &[0])];
        let index = BTreeMap::from([("a", 0), ("b", 1), ("c", 2)]);
        let (bars, rows) = stacked(&stays, &index);
        let of = |job, gpu| bars.iter().find(|bar| bar.job == Some(job) && bar.gpu.number() == gpu).expect("a bar").row;
        assert_eq!((of(0, 0), of(1, 0), of(2, 0), of(1, 1)), (0, 1, 0, 0));
        assert_eq!(rows, BTreeMap::from([(GpuId::new(0), 2), (GpuId::new(1), 1)]));
    }

    #[test]
    fn short_stays_become_one_bar_and_none_is_lost() {
        let stays: Vec<StayRecord> = (0..100).map(|at| stay("a", f64::from(at), f64::from(at) + 0.5, &[0])).collect();
        let (bars, _) = stacked(&stays, &BTreeMap::from([("a", 0)]));
        let merged = merged(&bars, 1.0);
        assert_eq!((merged.len(), merged[0].count), (1, 100));
        assert_eq!((merged[0].from, merged[0].to), (0.0, 99.5));
    }

    #[test]
    fn a_lane_tells_ticks_since_the_bar_before_and_a_map_the_part_that_is_held() {
        let stays = [stay("a", 0.0, 10.0, &[0, 1]), stay("b", 15.0, 20.0, &[0])];
        let (data, note) = lanes(&[("T4".into(), 2)], 2, &[], &stays, &mut Named::default());
        assert_eq!(
            (data["lanes"].to_string().as_str(), note.as_str()),
            ("[[[0,50000,-1,25000,25000,-1]],[[0,50000,-1]]]", "")
        );
        let nodes: Vec<(String, u32)> = (0..192).map(|_| ("T4".to_string(), 1)).collect();
        let (data, note) = map(&nodes, &stays);
        assert_eq!(note, "a row is 2 nodes");
        let rows: Vec<String> = serde_json::from_value(data["map"]["rows"].clone()).expect("rows");
        assert_eq!((rows.len(), rows[0].len()), (96, 240));
        // Both of the first two nodes, then none, then one of them.
        assert_eq!((&rows[0][..1], &rows[0][150..151], &rows[0][239..]), ("z", "0", "i"));
        assert!(rows[1].chars().all(|cell| cell == '0'));
    }
}
