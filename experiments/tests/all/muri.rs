//! Muri's simulator: from the spec through the component, each job of its SRTF and SRSF starts and ends when it does there.

use std::collections::BTreeMap;

use sandtable_needs::needs;
use sandtable_results::schema::{JobRecord, Seconds};

use crate::help::{data, planned, results, told};

/// A cell of 8 nodes of 8 GPUs under the preset.
fn cell(order: &str, jobs: u32) -> sandtable::plan::Plan {
    let trace = data("muri/trace1.csv.gz");
    let spec = format!(
        "Experiment(title: \"muri\", fleet: Model(nodes: 8, gpus: 8, kind: \"V100\", speed: 1.0, sharing: Packed(4)), \
         profile: Muri({trace:?}), interference: (law: Stages), workload: Trace(file: {trace:?}, format: MuriSteps), \
         semantics: Semantics(preset: \"muri\"), predictors: {{\"remaining\": Oracle}}, reveal: [SoloProfile], \
         policies: [Policy(name: \"muri\", with: {{\"order\": {order:?}, \"jobs\": {jobs}}})])"
    );
    planned(&spec).unwrap_or_else(|error| panic!("{error}"))
}

/// Start and end of each job, as the simulator says, in seconds.
fn theirs(file: &str) -> BTreeMap<String, (f64, f64)> {
    let packed = std::fs::File::open(data(file)).expect("the results");
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(packed));
    let of = |record: csv::StringRecord| {
        let number = |at: usize| record[at].parse::<f64>().expect("seconds");
        (record[1].to_string(), (number(4), number(5)))
    };
    reader.records().map(|record| of(record.expect("a row"))).collect()
}

/// Compares every job; its clock is of doubles, ours of microseconds.
fn is_met(order: &str, file: &str) {
    let (_, rows) = results::<JobRecord>(&cell(order, 1));
    let theirs = theirs(file);
    assert_eq!(rows.len(), theirs.len());
    let off = |ours: &JobRecord| {
        let (start, end) = theirs[&ours.job_id];
        let of = |ours: Option<Seconds>, theirs: f64| ours.map_or(f64::INFINITY, |ours| (ours.f64() - theirs).abs());
        of(ours.first_start_s, start).max(of(ours.end_s, end))
    };
    let worst = rows.iter().map(off).fold(0.0, f64::max);
    told(&format!("Muri's simulator, {order}: {} jobs, the furthest {worst:.6} s off", rows.len()));
    assert!(worst < 1e-2, "{worst}");
}

#[needs("data:muri")]
#[test]
fn srtf_is_met_job_by_job() {
    is_met("time", "muri/simres_trace1_shortest.csv.gz");
}

#[needs("data:muri")]
#[test]
fn srsf_is_met_job_by_job() {
    is_met("service", "muri/simres_trace1_shortest-gpu.csv.gz");
}
