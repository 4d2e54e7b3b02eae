//! What the reader of Slurm's accounting takes in, changes, merges and leaves out.

use super::tests::{after, parse};
use super::*;

/// What the accounting of a real cluster has, in small.
#[test]
fn a_log_of_slurm_loses_nothing_in_silence() {
    let head = "JobID|Submit|Eligible|Start|End|State|Timelimit|AllocTRES|ReqTRES|User|Account|Partition|QOS|Priority|NodeList\n";
    let at = |clock: &str| format!("2024-01-01T{clock}");
    let line = |id: &str, times: [&str; 4], state: &str, tres: &str| {
        let times = times.map(|clock| if clock.contains(':') { at(clock) } else { clock.to_string() }).join("|");
        format!("{id}|{times}|{state}|1-00:00:00|{tres}||u1|phys|gpu|normal|100|n[0-1]\n")
    };
    let text = [
        head.to_string(),
        // The sum of two kinds, without a total; it became eligible after a minute.
        line("1", ["00:00:00", "00:01:00", "00:02:00", "01:02:00"], "TIMEOUT", "cpu=8,gres/gpu:v100=3,gres/gpu:a100=1"),
        line("1.batch", ["00:00:00", "00:00:00", "00:02:00", "01:02:00"], "TIMEOUT", "cpu=8"),
        // Two runs of one job: its node failed.
        line("2", ["00:00:30", "00:00:30", "00:01:00", "00:10:00"], "NODE_FAIL", "gres/gpu=2,gres/gpu:a100=2"),
        line("2", ["00:10:00", "00:12:00", "00:20:00", "00:50:00"], "COMPLETED", "gres/gpu=2,gres/gpu:a100=2"),
        // Two components of one job, a slice, one that runs, one that waits, one without GPU, one cancelled before it ran.
        line("3+0", ["00:03:00", "00:03:00", "00:04:00", "00:06:00"], "COMPLETED", "gres/gpu:a100=4"),
        line("3+1", ["00:03:00", "00:03:00", "00:04:00", "00:07:00"], "COMPLETED", "gres/gpu:a100=1"),
        line("4_7", ["00:04:00", "00:04:00", "00:04:00", "00:05:00"], "FAILED", "gres/gpu:a100_1g.10gb=1"),
        line("5", ["00:05:00", "00:05:00", "00:06:00", "Unknown"], "RUNNING", "gres/gpu=1"),
        line("6", ["00:05:00", "Unknown", "Unknown", "Unknown"], "PENDING", "gres/gpu=1"),
        line("7", ["00:05:00", "00:05:00", "00:06:00", "00:07:00"], "COMPLETED", "cpu=4"),
        line("8", ["00:05:00", "00:05:00", "00:30:00", "00:30:00"], "CANCELLED by 1000", "gres/gpu=1"),
        // A heterogeneous job whose node failed, twice; the order of its rows is the accounting's own.
        line("9+0", ["00:08:00", "00:08:00", "00:09:00", "00:10:00"], "NODE_FAIL", "gres/gpu=4,gres/gpumem=40G"),
        line("9+1", ["00:08:00", "00:08:00", "00:09:00", "00:10:00"], "NODE_FAIL", "gres/gpu=4"),
        line("9+0", ["00:10:00", "00:12:00", "00:20:00", "00:25:00"], "NODE_FAIL", "gres/gpu=4"),
        line("9+1", ["00:10:00", "00:12:00", "00:20:00", "00:25:00"], "NODE_FAIL", "gres/gpu=4"),
        line("9+0", ["00:25:00", "00:27:00", "00:30:00", "00:50:00"], "COMPLETED", "gres/gpu=4"),
        line("9+1", ["00:25:00", "00:27:00", "00:30:00", "00:50:00"], "COMPLETED", "gres/gpu=4"),
        // One that was put back and waits; the night when clocks are put back; parts of GPUs; one that has just begun.
        line("10", ["00:08:00", "00:08:00", "00:09:00", "00:19:00"], "REQUEUED", "gres/gpu=1"),
        line("10", ["00:19:00", "00:21:00", "Unknown", "Unknown"], "PENDING", "gres/gpu=1"),
        line("11", ["00:08:00", "00:08:00", "00:50:00", "00:10:00"], "COMPLETED", "gres/gpu=1"),
        line("12", ["00:08:00", "00:08:00", "00:09:00", "00:10:00"], "COMPLETED", "gres/shard=2"),
        line("13", ["00:08:00", "00:08:00", "01:02:00", "Unknown"], "RUNNING", "gres/gpu=1"),
    ]
    .concat();
    let trace = parse(TraceFormat::Sacct, &text, &Options::default()).unwrap();
    let job = |name: &str| trace.rows.iter().find(|row| row.name == name).expect("a job");
    let outcome = |name: &str| job(name).recorded.as_ref().and_then(|log| log.outcome.clone()).unwrap_or_default();
    let times = |name: &str| (seconds(job(name).submit.since_start()), job(name).gpus, seconds(job(name).duration));
    assert_eq!(trace.rows.len(), 7);
    assert_eq!(times("1"), ("60".into(), 4, "3600".into()));
    assert_eq!((job("1").kinds.join(" "), outcome("1")), ("v100 a100".into(), "timeout".into()));
    let log = job("1").recorded.as_ref().expect("a log");
    assert_eq!((log.submitted, log.start, log.priority), (Some(Instant::START), Some(after(120)), Some(100)));
    assert_eq!((log.partition.as_deref(), log.nodes.as_deref()), (Some("gpu"), Some("n[0-1]")));
    // Its last run, since it first came; it first started at 00:01:00.
    assert_eq!(times("2"), ("30".into(), 2, "1800".into()));
    assert_eq!(job("2").recorded.as_ref().and_then(|log| log.start), Some(after(60)));
    assert_eq!(times("3"), ("180".into(), 5, "180".into()));
    assert_eq!(
        (times("4_7").1, job("4_7").kinds.join(" "), outcome("4_7")),
        (1, "a100_1g.10gb".into(), "failed".into())
    );
    // The file ends at 01:02:00; when the job does is unknown.
    assert_eq!((times("5").2, outcome("5")), ("3360".into(), "running".into()));
    assert_eq!(job("5").recorded.as_ref().and_then(|log| log.end), None);
    assert_eq!((times("9"), outcome("9")), (("480".into(), 8, "1200".into()), "completed".into()));
    assert_eq!(job("9").recorded.as_ref().and_then(|log| log.start), Some(after(540)));
    assert_eq!((times("10"), outcome("10")), (("480".into(), 1, "600".into()), "requeued".into()));
    let found: Vec<String> = trace.account.notes.iter().map(account::Note::sentence).collect();
    let expected = [
        "1 rows changed: asks for several kinds of GPU: as many of any of them (first: line 2)",
        "1 rows left out: a step of a job (first: line 3)",
        "1 rows changed: runs on MIG slices: each counts as a GPU of that kind (first: line 8)",
        "1 rows left out: ends before it starts (first: line 21)",
        "1 rows left out: asks for parts of GPUs (gres/shard, gres/mps), which this format does not say enough about (first: line 22)",
        "3 rows merged: a run of a job that was put back into the queue: its last run counts (first: line 4)",
        "4 rows merged: a component of a heterogeneous job: one gang with the others (first: line 7)",
        "1 rows merged: a job that was put back into the queue, and waits: its last run counts (first: line 20)",
        "1 rows changed: became eligible after it was submitted: comes then (first: line 2)",
        "1 rows changed: still ran: as long as the file's last instant is after its start (first: line 9)",
        "2 rows left out: never ran (first: line 10)",
        "1 rows left out: asks for no GPU (first: line 11)",
        "1 rows left out: began with the file's last instant (first: line 23)",
    ];
    let (mut found, mut expected) = (found, expected.map(str::to_string).to_vec());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!((trace.account.read, trace.account.ignored.len()), (22, 0));
    // Every row is a job, a part of one, or left out.
    let of = |fates: &[Fate]| -> usize {
        trace.account.notes.iter().filter(|note| fates.contains(&note.fate)).map(|note| note.rows).sum()
    };
    assert_eq!(trace.rows.len() + of(&[Fate::LeftOut, Fate::Merged]), 22);
    assert_eq!(trace.account.origin.map(date), Some("2024-01-01 00:00:00".into()));
    // As a native trace it is the same.
    let again = parse(TraceFormat::Native, &trace.to_csv(), &Options::default()).unwrap();
    let mut rows = trace.rows.clone();
    rows.sort_by_key(|row| row.submit);
    let mut same = again.rows;
    same.sort_by_key(|row| row.submit);
    assert_eq!(same, rows);
    let wrong = text.replace("gres/gpu:a100=4", "gres/gpu:a100");
    let wrong = parse(TraceFormat::Sacct, &wrong, &Options::default()).unwrap_err();
    assert!(wrong.contains("t.csv:6: column `AllocTRES`: expected gres/gpu=N or gres/gpu:KIND=N"), "{wrong}");
}

/// The queue of a job is what its log names.
#[test]
fn a_log_names_queues() {
    let text = "JobID|Submit|Start|End|State|ReqTRES|User|Account|Partition|QOS\n\
                1|2024-01-01T00:00:00|2024-01-01T00:00:00|2024-01-01T00:01:00|COMPLETED|gres/gpu=1|u1|phys|gpu|high\n";
    let queue = |text: &str, format, of| {
        let options = Options { queue: Some(of), ..Options::default() };
        let trace = of_bytes("t.csv".as_ref(), text.as_bytes(), format, &options).map_err(|error| error.message)?;
        Ok::<_, String>(trace.rows[0].queue.clone())
    };
    let named =
        [(QueueOf::Account, "phys"), (QueueOf::Partition, "gpu"), (QueueOf::Qos, "high"), (QueueOf::User, "u1")];
    for (of, name) in named {
        assert_eq!(queue(text, TraceFormat::Sacct, of).unwrap().as_deref(), Some(name));
    }
    let native = parse(TraceFormat::Sacct, text, &Options::default()).unwrap().to_csv();
    assert_eq!(queue(&native, TraceFormat::Native, QueueOf::Account).unwrap().as_deref(), Some("phys"));
    let without = text.replace("|phys|", "||");
    let error = queue(&without, TraceFormat::Sacct, QueueOf::Account).unwrap_err();
    assert_eq!(error, "t.csv: job \"1\": expected its account, found none");
}
