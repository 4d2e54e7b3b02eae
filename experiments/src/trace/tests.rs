//! Every format on a small text, and every mistake with its place.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_needs::needs;
use sandtable_policy::testing::data;

use super::*;
use crate::spec::{Arrivals, Durations};

fn parse(format: TraceFormat, text: &str, options: &Options) -> Result<Trace, String> {
    formats::parse(Path::new("t.csv"), text.as_bytes(), format, options).map_err(|error| error.to_string())
}

/// (name, submission s, GPUs, duration s) of each row.
fn rows(format: TraceFormat, text: &str, options: &Options) -> Vec<(String, String, u32, String)> {
    let trace = parse(format, text, options).unwrap();
    trace.rows.into_iter().map(|row| (row.name, seconds(row.submit), row.gpus, seconds(row.duration))).collect()
}

fn row(name: &str, submit: &str, gpus: u32, duration: &str) -> (String, String, u32, String) {
    (name.into(), submit.into(), gpus, duration.into())
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn native_round_trips() {
    let text = "job_id,submit_s,gpus,duration_s,declared_s,gpu_types,preemptible\na,0,1,60.5,90,,true\nb,2.000001,4,7,,K80|T4,false\n";
    let trace = parse(TraceFormat::Native, text, &Options::default()).unwrap();
    assert_eq!(trace.to_csv(), text);
    assert_eq!((trace.rows[1].submit, trace.rows[0].duration), (2_000_001, 60_500_000));
}

#[test]
fn formats_are_understood() {
    use TraceFormat::{Csv, Lucid, Muri, Openb, Pai, Philly, Sacct, Swf, Tiresias};
    let plain = Options::default();
    let philly = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 00:01:00,66.0,1,66.0,a\n2017-10-09 00:00:00,5.0,8,40.0,b\n";
    assert_eq!(rows(Philly, philly, &plain), [row("0", "60", 1, "66"), row("1", "0", 8, "5")]);
    let only = Options { filter: map(&[("cluster", "a")]), ..Options::default() };
    assert_eq!(rows(Philly, philly, &only), [row("0", "0", 1, "66")]);
    let tiresias = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n7,2,30,133,vgg11,147,23\n";
    assert_eq!(rows(Tiresias, tiresias, &plain), [row("7", "30", 2, "147")]);
    let muri = "job_id,num_gpu,submit_time,duration\n7,2,30500,147000\n";
    assert_eq!(rows(Muri, muri, &plain), [row("7", "30.5", 2, "147")]);
    let lucid = "job_id,user,gpu_num,submit_time,duration\n1,u,0,2020-04-01 00:00:00,9\n2,u,3,2020-04-01 00:00:02,9\n";
    assert_eq!(rows(Lucid, lucid, &plain), [row("2", "0", 3, "9")]);
    let pai = "job_id,num_gpu,submit_time,duration,num_inst\n1,0.5,10,9,4\n2,2,11,9,\n";
    assert_eq!(rows(Pai, pai, &plain), [row("1", "10", 4, "9"), row("2", "11", 2, "9")]);
    let openb = "name,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\np0,1,460,T4|P100,5,30,10\np1,1,1000,,6,30,\np2,0,0,,7,30,9\n";
    let trace = parse(Openb, openb, &plain).unwrap();
    assert_eq!((trace.rows.len(), trace.rows[0].kinds.len(), seconds(trace.rows[0].duration)), (1, 2, "20".into()));
    let counts: Vec<usize> = trace.notes.iter().map(|(_, count)| *count).collect();
    assert_eq!(counts, [1, 1], "a pod that never ran, a pod without GPU: {:?}", trace.notes);
    assert_eq!(trace.rows[0].share, 460);
    let swf =
        "; Version: 2\n1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 -1 -1 -1\n2 3 5 -1 4 -1 -1 8 200 -1 0 1 1 1 1 -1 -1 -1\n";
    let trace = parse(Swf, swf, &plain).unwrap();
    assert_eq!((trace.rows[0].gpus, trace.rows[0].declared, trace.rows.len()), (8, Some(200_000_000), 1));
    let sacct = "JobID|Submit|Start|End|Timelimit|AllocTRES\n\
        1|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00|1-00:00:00|cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=1G\n\
        1.batch|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00||cpu=8\n\
        2|2024-01-01T00:00:09|Unknown|Unknown|1:00:00|cpu=8,gres/gpu=1\n";
    assert_eq!(rows(Sacct, sacct, &plain), [row("1", "0", 4, "3600")]);
    let columns = map(&[("submit", "when"), ("gpus", "n"), ("start", "from"), ("end", "to"), ("unit", "ms")]);
    let options = Options { columns, ..Options::default() };
    assert_eq!(rows(Csv, "when,n,from,to\n1000,2,1500,4000\n", &options), [row("0", "1", 2, "2.5")]);
}

#[test]
fn gavel_needs_its_table() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("t.json");
    std::fs::write(&table, "{\"v100\": {\"('A3C', 1)\": {\"null\": 2.0}, \"('A3C', 4)\": {\"null\": 5.0}}}").unwrap();
    let options = Options { throughputs: Some(table), ..Options::default() };
    let text = "A3C\tcmd\t-n\t1\t100\t5.5\t4\nA3C\tcmd\tdir\t-n\t1\t100\t2\t1\t-1.0\t9\n";
    assert_eq!(rows(TraceFormat::Gavel, text, &options), [row("0", "5.5", 4, "20"), row("1", "9", 2, "25")]);
    assert!(
        parse(TraceFormat::Gavel, text, &Options::default()).unwrap_err().contains("needs the table of throughputs")
    );
    let wrong = parse(TraceFormat::Gavel, "A3D\tcmd\t-n\t1\t100\t5\t4\n", &options).unwrap_err();
    assert_eq!(wrong, "error: t.csv:1: column 1: the table has no V100 throughput of \"A3D\"");
}

#[test]
fn mistakes_name_file_line_column_and_reason() {
    let plain = Options::default();
    let native =
        |body: &str| parse(TraceFormat::Native, &format!("submit_s,gpus,duration_s\n{body}"), &plain).unwrap_err();
    assert_eq!(native("0,1,60\n1,-2,60\n"), "error: t.csv:3: column `gpus`: expected a whole number, found \"-2\"");
    assert_eq!(native("0,0,60\n"), "error: t.csv:2: column `gpus`: expected at least 1, found 0");
    assert_eq!(native("x,1,60\n"), "error: t.csv:2: column `submit_s`: expected a time of at least 0, found \"x\"");
    assert_eq!(native("0,1\n"), "error: t.csv:2: 2 columns, expected 3");
    let missing = parse(TraceFormat::Native, "submit,gpus,duration_s\n", &plain).unwrap_err();
    assert_eq!(
        missing,
        "error: t.csv:1: no column `submit_s`: found submit, gpus, duration_s\nhint: is `submit` meant?"
    );
    let unknown = parse(TraceFormat::Native, "submit_s,gpus,duration_s,colour\n", &plain).unwrap_err();
    assert!(unknown.starts_with("error: t.csv:1: the native format has no column `colour`\nhint: it has"), "{unknown}");
    let back =
        "JobID|Submit|Start|End|AllocTRES\n1|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:00:30|gres/gpu=1\n";
    let back = parse(TraceFormat::Sacct, back, &plain).unwrap_err();
    assert!(back.starts_with("error: t.csv:2: column `End`: 2024-01-01T00:00:30 is before Start"), "{back}");
    let mapping = parse(TraceFormat::Csv, "a\n1\n", &plain).unwrap_err();
    assert!(mapping.starts_with("error: the mapping of columns lacks `duration`"), "{mapping}");
}

#[test]
fn compressed_files_are_read_as_they_are() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let text = "submit_s,gpus,duration_s\n0,1,60\n";
    let (gz, zst) = (folder.path().join("t.csv.gz"), folder.path().join("t.csv.zst"));
    let mut encoder = flate2::write::GzEncoder::new(std::fs::File::create(&gz).unwrap(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap();
    std::fs::write(&zst, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    for path in [gz, zst] {
        assert_eq!(read(&path, TraceFormat::Native, &Options::default()).unwrap().rows.len(), 1);
    }
}

#[test]
fn generators_offer_the_load_that_was_asked_for() {
    let arrivals = [
        Arrivals::Poisson { load: 0.7 },
        Arrivals::Bursts { load: 0.7, size: 10.0 },
        Arrivals::Diurnal { load: 0.7, peak: 1.8 },
    ];
    for arrivals in arrivals {
        let (gpus, durations) =
            (BTreeMap::from([(1, 0.5), (4, 0.5)]), Durations::Fixed(crate::spec::units::Span(3_600_000_000)));
        let recipe = Recipe {
            jobs: 4000,
            arrivals,
            durations: &durations,
            gpus: &gpus,
            workloads: &[],
            users: &[],
            declared: None,
            elastic: &|_| None,
            fleet: Terrain { capacity: 100.0, largest: 8, node: 8 },
        };
        let mut trace = generate(&recipe, 5);
        assert_eq!(trace, generate(&recipe, 5));
        assert!(trace.rows.is_sorted_by_key(|row| row.submit));
        trace.rows.sort_by_key(|row| row.submit);
        let stats = Stats::of(&trace);
        assert!((stats.offered_gpus / 100.0 - 0.7).abs() < 0.05, "{arrivals:?}: {}", stats.offered_gpus);
        let burst = if let Arrivals::Bursts { .. } = arrivals { 3000.. } else { 0.. };
        assert!(burst.contains(&stats.tied), "{arrivals:?}: {} tied", stats.tied);
    }
}

/// Every public trace at hand is read, and its jobs counted.
#[needs("data:philly", "data:tiresias", "data:muri", "data:openb-2023", "data:gavel", "data:gavel-msr", "data:pollux")]
#[test]
fn public_traces_are_read() {
    let shared = data("");
    let gavel = Options { throughputs: Some(shared.join("gavel/simulation_throughputs.json")), ..Options::default() };
    let pollux = Options { throughputs: Some(shared.join("pollux/traces")), ..Options::default() };
    let plain = Options::default();
    for (file, format, options, jobs) in [
        ("philly/philly_jobs.csv.gz", TraceFormat::Philly, &plain, 71_149),
        ("tiresias/60_job.csv", TraceFormat::Tiresias, &plain, 60),
        ("muri/trace1.csv.gz", TraceFormat::Muri, &plain, 1_494),
        ("openb-2023/openb_pod_list_default.csv.gz", TraceFormat::Openb, &plain, 6_203),
        ("gavel-msr/msr_seed0_e13805.trace.gz", TraceFormat::Gavel, &gavel, 0),
        ("gavel-msr/physical_small_test.trace", TraceFormat::Gavel, &gavel, 0),
        ("pollux/workloads/workload-1.csv", TraceFormat::Pollux, &pollux, 160),
    ] {
        let trace = read(&shared.join(file), format, options).unwrap_or_else(|error| panic!("{error}"));
        assert!(jobs == 0 || trace.rows.len() == jobs, "{file}: {} jobs", trace.rows.len());
        assert!(trace.rows.iter().all(|row| row.gpus > 0), "{file}");
    }
}
