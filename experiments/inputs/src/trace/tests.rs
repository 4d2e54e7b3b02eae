//! Every format on a small text, and every mistake with its place.

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_needs::needs;
use sandtable_policy::testing::data;

use super::*;
use super::{Arrivals, Durations};

pub(super) fn after(seconds: u64) -> Instant {
    Instant::at(seconds * SECOND)
}

pub(super) fn parse(format: TraceFormat, text: &str, options: &Options) -> Result<Trace, String> {
    formats::parse(Path::new("t.csv"), text.as_bytes(), format, options).map_err(|error| error.to_string())
}

/// (name, submission s, GPUs, duration s) of each row.
fn rows(format: TraceFormat, text: &str, options: &Options) -> Vec<(String, String, u32, String)> {
    let trace = parse(format, text, options).unwrap();
    trace
        .rows
        .into_iter()
        .map(|row| (row.name.to_string(), seconds(row.submit.since_start()), row.gpus, seconds(row.duration)))
        .collect()
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
    assert_eq!(
        (trace.rows[1].submit, trace.rows[0].duration),
        (Instant::from_micros(2_000_001), Duration::from_millis(60_500))
    );
}

#[test]
fn formats_are_understood() {
    use TraceFormat::{Csv, Lucid, Muri, Openb, Pai, Philly, Sacct, Swf, Tiresias};
    let plain = Options::default();
    let philly = "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 00:01:00,66.0,1,66.0,a\n2017-10-09 00:00:00,5.0,8,40.0,b\n";
    assert_eq!(rows(Philly, philly, &plain), [row("0", "60", 1, "66"), row("1", "0", 8, "5")]);
    let only = Options { filter: map(&[("cluster", "a")]), ..Options::default() };
    assert_eq!(rows(Philly, philly, &only), [row("0", "0", 1, "66")]);
    let partition = |row: &Row| row.recorded.as_ref().and_then(|log| log.partition.clone());
    assert_eq!(parse(Philly, philly, &plain).unwrap().rows.iter().filter_map(partition).collect::<String>(), "ab");
    let bare = "timestamp,duration,num_gpus\n2017-10-09 00:01:00,66.0,1\n";
    assert_eq!(parse(Philly, bare, &plain).unwrap().rows[0].recorded, None);
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
    let counts: Vec<(usize, u64)> = trace.account.notes.iter().map(|note| (note.rows, note.line)).collect();
    assert_eq!(counts, [(1, 3), (1, 4)], "a pod that never ran, a pod without GPU: {:?}", trace.account);
    assert_eq!(trace.rows[0].share, 460);
    let swf =
        "; Version: 2\n1 0 5 100 4 -1 -1 8 200 -1 1 1 1 1 1 -1 -1 -1\n2 3 5 -1 4 -1 -1 8 200 -1 0 1 1 1 1 -1 -1 -1\n";
    let trace = parse(Swf, swf, &plain).unwrap();
    assert_eq!((trace.rows[0].gpus, trace.rows[0].declared, trace.rows.len()), (8, Some(200 * SECOND), 1));
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
fn times_that_are_none_are_errors_and_doubts_are_told() {
    let philly =
        |rows: &str| parse(TraceFormat::Philly, &format!("timestamp,duration,num_gpus\n{rows}"), &Options::default());
    for no_date in ["2017-02-30 00:00:00", "2017-02-03 25:61:61", "2017-2-3 00:00:00"] {
        let error = philly(&format!("2017-01-01 00:00:00,5,1\n{no_date},5,1\n")).unwrap_err();
        assert!(error.contains("t.csv:3: column `timestamp`") && error.contains(no_date), "{error}");
    }
    let mixed = philly("2017-01-01 00:00:00,5,1\n86400,5,1\n").unwrap_err();
    assert!(
        mixed.contains("t.csv:3: column `timestamp`: found a number, \"86400\", where each time before it is a date"),
        "{mixed}"
    );
    let epoch = philly("1500000000,5,1\n1500000060,5,1\n").unwrap();
    assert_eq!((epoch.rows[1].submit, epoch.account.origin.map(date)), (after(60), Some("2017-07-14 02:40:00".into())));
    let columns = map(&[("submit", "a"), ("gpus", "n"), ("duration", "d"), ("unit", "h")]);
    let hours = parse(TraceFormat::Csv, "a,n,d,x\n1,2,0.5,7\n", &Options { columns, ..Options::default() }).unwrap();
    assert_eq!((hours.rows[0].submit, hours.rows[0].duration), (after(3600), 1800 * SECOND));
    assert_eq!(hours.account.ignored, ["x"]);
    let fine =
        parse(TraceFormat::Native, "submit_s,gpus,duration_s\n0.5,1,1.0000000\n0,1,0.1234567\n", &Options::default());
    let fine: Vec<String> = fine.unwrap().account.notes.iter().map(account::Note::sentence).collect();
    assert_eq!(fine, ["1 rows changed: has a time finer than a microsecond: rounded down (first: line 3)"]);
    let milli = |milli: u32| {
        let head = "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time";
        parse(TraceFormat::Openb, &format!("{head}\np,1,{milli},5,30,10\n"), &Options::default())
    };
    assert!(milli(1000).is_ok());
    for wrong in [0, 5000] {
        let error = milli(wrong).unwrap_err();
        assert!(error.contains(&format!("expected 1 to 1000 thousandths of a GPU, found {wrong}")), "{error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "submit_s,gpus,duration_s\n0,1,66000000\n1,1,5000000\n2,1,7\n").unwrap();
    let doubtful = read(&path, TraceFormat::Native, &Options::default()).unwrap();
    let said = doubtful.account.notes[0].sentence();
    assert_eq!(said, "2 rows doubtful: take longer than 30 days: is the unit of times right?");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let rows = "0,1,1\n".repeat(200_000);
    let text = format!("submit_s,gpus,duration_s\n{rows}");
    let path = folder.path().join("t.csv.zst");
    std::fs::write(&path, zstd::encode_all(text.as_bytes(), 1).unwrap()).unwrap();
    let read = |bytes: u64, rows: usize| {
        let options = Options { limits: ReadLimits { bytes, rows }, ..Options::default() };
        read(&path, TraceFormat::Native, &options).map(|trace| trace.rows.len()).map_err(|error| error.to_string())
    };
    assert_eq!(read(2_000_000, 200_000), Ok(200_000));
    let bytes = read(1_000_000, 200_000).unwrap_err();
    assert!(bytes.contains("more than 1000000 bytes, decompressed") && bytes.contains("--max-bytes"), "{bytes}");
    let rows = read(2_000_000, 199_999).unwrap_err();
    assert!(rows.contains("more than 199999 rows") && rows.contains("--max-rows"), "{rows}");
}

#[test]
fn an_import_is_accounted_for_beside_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("from.csv"), folder.path().join("to.csv"));
    std::fs::write(&from, "timestamp,duration,num_gpus,vc\n2017-10-03 00:00:00,5,1,a\n2017-10-03 00:00:09,5,0,a\n")
        .unwrap();
    let imported = read(&from, TraceFormat::Philly, &Options::default()).unwrap();
    let text = imported.to_csv();
    std::fs::write(&to, &text).unwrap();
    Imported::keep(&from, &imported.account, &to, &text).unwrap();
    let trace = read(&to, TraceFormat::Native, &Options::default()).unwrap();
    let (_, account) = *trace.imported.clone().expect("an account");
    assert_eq!(account, imported.account);
    assert_eq!(Packed::of(trace).origin(), imported.account.origin);
    let line = "rows read 2; kept 1; left out 1 asks for no GPU (first: line 3); columns ignored 1 vc; second 0 is 2017-10-03 00:00:00";
    assert_eq!(account.line(), line);
    // Of another trace it is no account.
    std::fs::write(&to, format!("{text}x,9,1,1\n")).unwrap();
    assert_eq!(read(&to, TraceFormat::Native, &Options::default()).unwrap().imported, None);
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
fn a_shockwave_trace_counts_steps_and_has_batches() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rates.csv");
    std::fs::write(&table, "model,batch,gpus,steps_per_s\nLM,10,2,4\nLM,20,2,0\n").unwrap();
    let options = Options { throughputs: Some(table), ..Options::default() };
    let text = "job_id,submit_s,model,batch,gpus,mode,steps\nx,5,LM,10,2,gns,100\n";
    let read = parse(TraceFormat::Shockwave, text, &options).expect("a trace");
    let job = &read.rows[0];
    assert_eq!((job.workload.as_deref(), job.batch, job.gpus), (Some("LM gns"), Some(10), 2));
    assert_eq!((job.name.as_str(), job.duration), ("x", 25 * SECOND));
    for (from, to, says) in [
        ("gns", "fast", "t.csv:2: column `mode`: expected static, accordion or gns, found \"fast\""),
        (",10,", ",20,", "the table has no rate of \"LM\" with a batch of 20 on 2 GPUs"),
        ("100", "many", "t.csv:2: column `steps`"),
    ] {
        let wrong = parse(TraceFormat::Shockwave, &text.replace(from, to), &options).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
    assert!(parse(TraceFormat::Shockwave, text, &Options::default()).unwrap_err().contains("needs the table of rates"));
}

#[test]
fn an_elasticflow_trace_counts_iterations_and_has_deadlines() {
    let folder = tempfile::tempdir().unwrap();
    let table = folder.path().join("rates.csv");
    std::fs::write(&table, "model,batch,gpus,iterations_per_s\nvgg16,64,2,4\n").unwrap();
    let options = Options { throughputs: Some(table), ..Options::default() };
    let text = "job_id,submit_s,model,batch,gpus,iterations,deadline_s\nx,5,vgg16,64,2,100,95\n";
    let read = parse(TraceFormat::ElasticFlow, text, &options).expect("a trace");
    let job = &read.rows[0];
    assert_eq!((job.workload.as_deref(), job.batch, job.gpus), (Some("vgg16 64"), Some(64), 2));
    assert_eq!((job.duration, job.deadline), (25 * SECOND, Some(Instant::at(95 * SECOND))));
    for (from, to, says) in [
        (",64,", ",32,", "the table has no rate of \"vgg16\" with a batch of 32 on 2 GPUs"),
        ("100", "many", "t.csv:2: column `iterations`"),
        ("100", "-100", "t.csv:2: column `iterations`: expected more than 0"),
        (",64,2,", ",64,3,", "t.csv:2: column `gpus`: the table has no rate"),
        ("95", "soon", "t.csv:2: column `deadline_s`"),
    ] {
        let wrong = parse(TraceFormat::ElasticFlow, &text.replace(from, to), &options).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
    assert!(parse(TraceFormat::ElasticFlow, text, &Options::default()).unwrap_err().contains("the table of rates"));
}

#[test]
fn a_muri_trace_may_be_read_step_by_step() {
    let text =
        "job_id,num_gpu,submit_time,iterations,model_name,duration,iteration_time\nx,2,1500,10,vgg16,2000,190.5\n";
    let read = parse(TraceFormat::MuriSteps, text, &Options::default()).expect("a trace");
    let job = &read.rows[0];
    assert_eq!((job.workload.as_deref(), job.gpus), (Some("vgg16"), 2));
    // Not the 2 s that `duration` is rounded to.
    assert_eq!((job.submit, job.duration), (Instant::at(Duration::from_millis(1500)), Duration::from_millis(1905)));
    for (from, to, says) in [
        (",10,", ",many,", "t.csv:2: column `iterations`"),
        (",10,", ",0,", "t.csv:2: column `iterations`: expected more than 0"),
        ("190.5", "0", "t.csv:2: column `iteration_time`: expected more than 0 ms, found 0"),
        ("model_name", "model", "model_name"),
    ] {
        let wrong = parse(TraceFormat::MuriSteps, &text.replace(from, to), &Options::default()).unwrap_err();
        assert!(wrong.contains(says), "{wrong}");
    }
}

#[test]
fn a_job_without_gpus_is_left_out_whatever_the_format() {
    let text = "time,name,application,num_replicas,batch_size\n0,a,cifar10,0,128\n5,b,cifar10,2,128\n";
    let read = parse(TraceFormat::Pollux, text, &Options::default()).expect("a trace");
    assert_eq!(read.rows.iter().map(|row| (row.name.as_str(), row.gpus)).collect::<Vec<_>>(), [("b", 2)]);
}

#[test]
fn mistakes_name_file_line_column_and_reason() {
    let plain = Options::default();
    let native =
        |body: &str| parse(TraceFormat::Native, &format!("submit_s,gpus,duration_s\n{body}"), &plain).unwrap_err();
    assert_eq!(native("0,1,60\n1,-2,60\n"), "error: t.csv:3: column `gpus`: expected a whole number, found \"-2\"");
    assert_eq!(
        native("0,0,60\n"),
        "error: t.csv:2: column `gpus`: expected at least 1, or `cpus` or `host_memory_mib` beside it, found 0"
    );
    assert_eq!(native("x,1,60\n"), "error: t.csv:2: column `submit_s`: expected a time of at least 0, found \"x\"");
    assert_eq!(native("0,1\n"), "error: t.csv:2: 2 columns, expected 3");
    let missing = parse(TraceFormat::Native, "submit,gpus,duration_s\n", &plain).unwrap_err();
    assert_eq!(
        missing,
        "error: t.csv:1: no column `submit_s`: found submit, gpus, duration_s\nhint: did you mean `submit`?"
    );
    let unknown = parse(TraceFormat::Native, "submit_s,gpus,duration_s,colour\n", &plain).unwrap_err();
    assert!(unknown.starts_with("error: t.csv:1: the native format has no column `colour`\nhint: it has"), "{unknown}");
    let back =
        Options { columns: map(&[("submit", "s"), ("gpus", "n"), ("start", "s"), ("end", "e")]), ..plain.clone() };
    let back = parse(TraceFormat::Csv, "s,n,e\n5,1,4\n", &back).unwrap_err();
    assert!(back.starts_with("error: t.csv:2: column `e`: 4 is before s, 5"), "{back}");
    let offset = "timestamp,duration,num_gpus\n2024-01-01T00:00:00+05:00,5,1\n2024-01-01 00:00:00,5,1\n";
    let offset = parse(TraceFormat::Philly, offset, &plain).unwrap_err();
    assert!(
        offset.contains("found a date, \"2024-01-01 00:00:00\", where each time before it is a date with an offset"),
        "{offset}"
    );
    let filter = Options { filter: map(&[("Part", "gpu")]), ..plain.clone() };
    let filter = parse(TraceFormat::Sacct, "JobID|Submit|Start|End|Partition|AllocTRES\n", &filter).unwrap_err();
    assert!(filter.contains("t.csv:1: no column `Part`"), "{filter}");
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
        let (gpus, durations) = (
            BTreeMap::from([(1, 0.5), (4, 0.5)]),
            Durations::Fixed(sandtable_core::units::Span(Duration::from_micros(3_600_000_000))),
        );
        let recipe = Recipe {
            gpus_per_node: None,
            hosts: &[],
            near: &Near::default(),
            jobs: 4000,
            arrivals,
            durations: &durations,
            gpus: &gpus,
            workloads: &[],
            users: &[],
            declared: None,
            deadlines: None,
            priorities: &BTreeMap::new(),
            queues: &BTreeMap::new(),
            shares: &BTreeMap::new(),
            parts: &BTreeMap::new(),
            part_size: &|_| 1.0,
            elastic: &|_| None,
            fleet: FleetShape { capacity: 100.0, largest: 8, node: 8 },
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
        assert_eq!(Packed::of(trace.clone()).trace().rows, trace.rows, "{file}");
    }
}

#[test]
fn deadlines_count_from_the_first_submission_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    let text = "s,g,d,by,class\n2017-07-14 02:40:00,1,60,2017-07-14 03:40:00,-2\n2017-07-14 02:41:00,1,60,,\n";
    std::fs::write(&path, text).expect("written");
    let columns = [("submit", "s"), ("gpus", "g"), ("duration", "d"), ("deadline", "by"), ("priority", "class")];
    let columns = columns.map(|(what, column)| (what.to_string(), column.to_string())).into();
    let trace = read(&path, TraceFormat::Csv, &Options { columns, ..Options::default() }).expect("a trace");
    let told: Vec<_> = trace.rows.iter().map(|row| (row.submit, row.deadline, row.priority)).collect();
    assert_eq!(told, [(Instant::START, Some(after(3600)), -2), (after(60), None, 0)]);
    // The native format has both.
    let native = folder.path().join("n.csv");
    std::fs::write(&native, trace.to_csv()).expect("written");
    let again = read(&native, TraceFormat::Native, &Options::default()).expect("a trace");
    assert_eq!(again.rows.iter().map(|row| (row.submit, row.deadline, row.priority)).collect::<Vec<_>>(), told);
}

#[test]
fn what_gangs_ask_of_nodes_is_read_and_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.csv");
    std::fs::write(&path, "s,g,d,each,cores,mib\n0,4,60,2,1.5,300\n1,3,60,,,\n").expect("written");
    let columns = [("submit", "s"), ("gpus", "g"), ("duration", "d"), ("gpus_per_node", "each"), ("cpus", "cores")];
    let columns = columns.into_iter().chain([("host_memory_mib", "mib")]);
    let columns = columns.map(|(what, column)| (what.to_string(), column.to_string())).collect();
    let mut trace = read(&path, TraceFormat::Csv, &Options { columns, ..Options::default() }).expect("a trace");
    let host = HostResources { cpu_milli: 1500, memory_mib: 300 };
    assert_eq!((trace.rows[0].gpus_per_node, trace.rows[0].host), (2, host));
    assert_eq!((trace.rows[1].gpus_per_node, trace.rows[1].host), (0, HostResources::UNKNOWN));
    trace.rows[1].near = Some(Box::new(Near { required: Some("row".into()), preferred: None }));
    let native = folder.path().join("n.csv");
    std::fs::write(&native, trace.to_csv()).expect("written");
    assert_eq!(read(&native, TraceFormat::Native, &Options::default()).expect("a trace").rows, trace.rows);
    let wrong = |each: &str, cores: &str| {
        let text = format!("submit_s,gpus,duration_s,gpus_per_node,cpus\n0,4,60,{each},{cores}\n");
        std::fs::write(&native, text).expect("written");
        read(&native, TraceFormat::Native, &Options::default()).expect_err("an error").to_string()
    };
    assert!(wrong("3", "1").contains(":2: column `gpus_per_node`: expected a divisor of the job's 4 GPUs, found 3"));
    assert!(
        wrong("2", "-1")
            .contains(":2: column `cpus`: expected 0 or a number of cores from 0.001 to 4294967, found \"-1\"")
    );
}
