//! Reading clusters: outputs of a real Slurm, and what is wrong with outputs.

use std::path::Path;

use sandtable_inputs::state::slurm;
use sandtable_needs::needs;
use serde_json::{Value, json};

use crate::help::{command, data, dist, ran, sandtable};

fn document(folder: &Path, file: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(file)).expect("a document")).expect("JSON")
}

/// One record of each kind of a real cluster's jobs, against a document that was made from other outputs of the same state.
#[needs("data:cluster-state")]
#[test]
fn a_real_slurm_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = data("cluster-state/slurm").display().to_string();
    let kinds = "a100=A100-SXM4-40GB,v100=V100-SXM2-16GB";
    let args =
        ["capture", "slurm", "--from", &from, "--at", "2026-11-22T01:05:32Z", "--kind", kinds, "-o", "slurm.json"];
    let ran = sandtable(folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let said = "5 nodes that take jobs, 18 GPUs, 5 running and 20 waiting jobs\nnot modelled: 2 jobs that are held\n";
    assert!(ran.stdout.starts_with(said), "{}", ran.stdout);
    let found = document(folder.path(), "slurm.json");
    let expected = document(&data("cluster-state/expected"), "slurm.state.json");
    let mut compared = 0;
    let (over, there): (Vec<&Value>, Vec<&Value>) =
        found["jobs"].as_array().expect("jobs").iter().partition(|job| job["state"] == "ended");
    // That one had ended 38 s before: where, and when, is told.
    assert_eq!(over.len(), 1);
    let (at, on) = ([&over[0]["started_s"], &over[0]["ended_s"]], &over[0]["on"]);
    assert_eq!((at, on), ([&json!(-39), &json!(-38)], &json!([{"node": "n0", "count": 1}])));
    for job in there {
        let other =
            expected["jobs"].as_array().expect("jobs").iter().find(|other| other["id"] == job["id"]).expect("it");
        let mut job = job.as_object().expect("a job").clone();
        // What the other outputs do not say.
        job.remove("planned_on");
        assert_eq!(&job, other.as_object().expect("a job"));
        compared += 1;
    }
    assert_eq!(compared, 29);
    assert_eq!(found["reservations"], expected["reservations"]);
    for (node, other) in
        found["nodes"].as_array().expect("nodes").iter().zip(expected["nodes"].as_array().expect("nodes"))
    {
        for key in ["name", "kind", "gpus", "features", "levels", "weight", "state", "queues", "cpus", "ram_mib"] {
            assert_eq!(node[key], other[key], "{} {key}", node["name"]);
        }
    }
}

const NODE: &str = "NodeName=n[0] Gres=gpu:a100:4 State=IDLE CPUTot=8\n";

const CAPTURE: [&str; 6] = ["capture", "slurm", "--from", ".", "-o", "s.json"];

/// A capture of these outputs: its exit code, what it says on standard error, and the document.
fn captured(job: &str, node: &str) -> (i32, String, Option<Value>) {
    let folder = outputs(job, node, &[]);
    let ran = sandtable(folder.path(), &CAPTURE);
    (ran.code, ran.stderr, (ran.code == 0).then(|| document(folder.path(), "s.json")))
}

#[test]
fn what_is_not_known_is_counted_and_what_is_wrong_is_named() {
    let job = "JobId=7 JobName=a Priority=9 TresPerNode=gres/gpu:9 UserId=u(1) Priority=5 JobState=PENDING Reason=Resources RunTime=00:00:00 \
               SubmitTime=2026-11-22T01:05:02 Partition=p NumNodes=2 TresPerNode=gres:gpu:a100:2 NewKey=3";
    let (code, stderr, document) = captured(job, &NODE.replace("n[0]", "n0"));
    assert_eq!(code, 0, "{stderr}");
    let document = document.expect("a document");
    assert_eq!(document["source"]["scheduler"]["kind"], "sched/builtin");
    let found = &document["jobs"][0];
    assert_eq!((&found["submitted_s"], &found["gpus"]), (&Value::from(-30), &Value::from(4)));
    assert_eq!(found["nodes"], serde_json::json!({"least": 2, "most": 2, "gpus_each": 2}));
    let ignored = document["ignored"].as_array().expect("a list");
    assert!(ignored.contains(&serde_json::json!({"what": "jobs.NewKey", "count": 1})), "{ignored:?}");
    let wrong = [
        (
            job.replace("01:05:02", "soon"),
            "job 7: SubmitTime: expected a time as 2026-11-22T01:04:53, found \"2026-11-22Tsoon\"",
        ),
        (job.replace("gpu:a100:2", "gpu:a100:x"), "job 7: expected GPUs as gpu:a100:2"),
        (job.replace("NumNodes=2", "NumNodes=two"), "job 7: NumNodes: expected numbers of nodes, found \"two\""),
        (job.replace("JobId=7", "JobId=-7"), "job -7: JobId: expected a whole number, found -7"),
        (
            job.replace("NewKey", "Dependency=afterok(unfulfilled) NewKey"),
            "job 7: Dependency: expected one as afterok:5(unfulfilled)",
        ),
        (
            job.replace("JobId=7", "JobId=7 ArrayJobId=7 ArrayTaskId=0-9999999999"),
            "job 7: ArrayTaskId: expected at most 100000 numbers as 0-9:3, found \"0-9999999999\"",
        ),
    ];
    for (job, expected) in wrong {
        // A record that can't be read is named in the document, and does not cost the others.
        let (code, stderr, document) = captured(&job, &NODE.replace("n[0]", "n0"));
        let document = document.unwrap_or_else(|| panic!("{code}: {stderr}"));
        let refused = &document["refused"][0];
        let found = format!("job {}: {}", refused["id"].as_str().unwrap_or(""), refused["why"].as_str().unwrap_or(""));
        assert!(found.contains(expected), "expected {expected}, found {document}");
    }
    let steps = job.replace("JobId=7", "JobId=7 ArrayJobId=7 ArrayTaskId=0-20:5%2 ArrayTaskThrottle=2");
    let (_, _, document) = captured(&steps, &NODE.replace("n[0]", "n0"));
    let document = document.expect("a document");
    let ids: Vec<&str> =
        document["jobs"].as_array().expect("jobs").iter().filter_map(|job| job["id"].as_str()).collect();
    assert_eq!(ids, ["7_0", "7_5", "7_10", "7_15", "7_20"]);
    // A name that looks like fields, a state of the future, a partition that is not shown.
    for (change, to) in [("JobState=PENDING", "JobState=DREAMING"), ("Partition=p", "Partition=hidden")] {
        let (code, stderr, document) = captured(&job.replace(change, to), &NODE.replace("n[0]", "n0"));
        let document = document.unwrap_or_else(|| panic!("{code}: {stderr}"));
        assert_eq!(document["jobs"].as_array().map_or(0, Vec::len), usize::from(change == "Partition=p"), "{document}");
    }
    let (code, stderr, _) = captured(job, "NodeName=n0 Gres=gpu:a100:many State=IDLE\n");
    assert!(
        code == 2 && stderr.contains("NodeName n0: expected GPUs as gpu:a100:2, found \"gpu:a100:many\""),
        "{stderr}"
    );
}

/// A folder of a cluster's outputs: of these jobs, on this node, and what else there is.
fn outputs(job: &str, node: &str, others: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let usual = [
        ("scontrol-show-job-d.txt", job),
        ("scontrol-show-node-d.txt", node),
        ("scontrol-show-partition.txt", "PartitionName=p State=UP DefaultTime=00:10:00 PriorityTier=1\n"),
        (
            "scontrol-show-config.txt",
            "Configuration data as of 2026-11-22T01:05:32\nSchedulerType           = sched/builtin\n",
        ),
    ];
    for (file, text) in usual.iter().chain(others) {
        std::fs::write(folder.path().join(file), text).expect("written");
    }
    folder
}

/// Its document, and what is said of it.
fn read(folder: &tempfile::TempDir) -> (Value, String) {
    let ran = sandtable(folder.path(), &CAPTURE);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (document(folder.path(), "s.json"), ran.stdout)
}

#[test]
fn nodes_that_save_power_are_up() {
    let node =
        |name: &str, state: &str| format!("NodeName={name} Gres=gpu:a100:4 State={state} CPUTot=8 Partitions=p\n");
    let states = [
        ("IDLE+CLOUD+POWERED_DOWN", "up"),
        ("MIXED+CLOUD+POWERING_UP+NOT_RESPONDING", "up"),
        ("IDLE+POWERING_DOWN", "up"),
        ("DOWN+CLOUD+POWERED_DOWN", "down"),
        ("IDLE+DRAIN+POWERED_DOWN", "drained"),
        ("IDLE+NOT_RESPONDING", "down"),
        ("IDLE*", "down"),
    ];
    let all: String = states.iter().zip(0..).map(|((state, _), at)| node(&format!("n{at}"), state)).collect();
    let (document, said) = read(&outputs("", &all, &[]));
    let found: Vec<&str> =
        document["nodes"].as_array().expect("nodes").iter().filter_map(|node| node["state"].as_str()).collect();
    assert_eq!(found, states.map(|(_, expected)| expected));
    let powered = json!({"what": "nodes.State: powered off, or on the way, and taken to be up", "count": 3});
    assert!(document["ignored"].as_array().expect("a list").contains(&powered), "{document}");
    assert!(said.starts_with("3 nodes that take jobs, 12 GPUs"), "{said}");
}

#[test]
fn cores_and_memory_are_those_that_jobs_get() {
    let node = "NodeName=n0 Gres=gpu:a100:4 State=IDLE CPUTot=32 CPUEfctv=30 Sockets=2 CoresPerSocket=8 RealMemory=64000 MemSpecLimit=4000 ThreadsPerCore=2 Partitions=p\n";
    let job = waiting(7, "NumCPUs=3-8 TRES=cpu=3,mem=12G,node=1,gres/gpu=2 TresPerNode=gres:gpu:2");
    let of = |select: &str| {
        let config = format!("Configuration data as of 2026-11-22T01:05:32\nSchedulerType = sched/builtin\n{select}");
        let (document, _) = read(&outputs(&job, node, &[("scontrol-show-config.txt", &config)]));
        let of = |what: &str, key: &str| document[what][0][key].clone();
        let node = (of("nodes", "cpus"), of("nodes", "ram_mib"));
        assert_eq!(node, (json!(30), json!(60_000)));
        (of("jobs", "cpus"), of("jobs", "ram_mib"), document["source"]["scheduler"]["counts_cpus"].clone())
    };
    // Whole cores of two threads; threads; memory alone; nothing is said.
    let cores = of("SelectType = select/cons_tres\nSelectTypeParameters = CR_CORE_MEMORY\n");
    assert_eq!(cores, (json!(4), json!(12_288), Value::Null));
    assert_eq!(
        of("SelectType = select/cons_tres\nSelectTypeParameters = CR_CPU\n"),
        (json!(3), Value::Null, Value::Null)
    );
    assert_eq!(of("SelectType = select/linear\nSelectTypeParameters = CR_MEMORY\n").2, json!(false));
    assert_eq!(of(""), (json!(3), Value::Null, Value::Null));
}

/// A waiting job, with fields of its own.
fn waiting(number: u32, fields: &str) -> String {
    format!(
        "JobId={number} JobName=a UserId=u(1) QOS=normal JobState=PENDING {fields} RunTime=00:00:00 TimeLimit=00:10:00 \
         SubmitTime=2026-11-22T01:05:02 Partition=p NumNodes=1 TresPerNode=gres:gpu:a100:1\n"
    )
}

#[test]
fn a_partition_that_drains_starts_its_jobs_and_one_of_whole_nodes_gives_them() {
    let partition = |more: &str| format!("PartitionName=p DefaultTime=00:10:00 PriorityTier=1 {more}\n");
    let of = |partition: &str| {
        let (document, _) = read(&outputs(
            &waiting(1, "Reason=Priority"),
            &NODE.replace("n[0]", "n0"),
            &[("scontrol-show-partition.txt", partition)],
        ));
        (document["queues"][0]["open"].clone(), document["jobs"][0]["whole_nodes"].clone())
    };
    assert_eq!(of(&partition("State=DRAIN OverSubscribe=EXCLUSIVE")), (json!(true), json!(true)));
    assert_eq!(of(&partition("State=DOWN OverSubscribe=NO")), (json!(false), Value::Null));
}

#[test]
fn the_quality_of_service_of_a_partition_limits_its_jobs_in_place_of_their_own() {
    let qos = "Name|Priority|GraceTime|Preempt|PreemptMode|GrpTRES|MaxTRESPU\n\
               normal|0|00:00:00||cluster|gres/gpu=4|\ngpuq|0|00:00:00||cluster|gres/gpu=1|\n";
    let jobs: String = (1..4).map(|number| waiting(number, "Reason=QOSGrpGRES")).collect();
    let partition = "PartitionName=p QoS=gpuq State=UP DefaultTime=00:10:00 PriorityTier=1\n";
    let folder = outputs(
        &jobs,
        &NODE.replace("n[0]", "n0"),
        &[("sacctmgr-show-qos.txt", qos), ("scontrol-show-partition.txt", partition)],
    );
    let (document, _) = read(&folder);
    assert_eq!(document["queues"][0]["charges"], json!(["qos/gpuq"]));
    // The node could take all three, and the partition's quality of service lets one run at a time.
    let asked = ["what-if", "s.json", "--policy", "slurm-backfill", "--queues", "--policies", &dist()];
    let ran = sandtable(folder.path(), &asked);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let starts: Vec<&str> = ran.stdout.lines().filter(|line| line.contains(" quota ")).map(str::trim_end).collect();
    assert!(starts.len() == 3 && starts.iter().filter(|line| line.ends_with("now")).count() == 1, "{}", ran.stdout);
}

#[test]
fn what_newer_or_rarer_slurms_say_of_jobs_is_understood() {
    let of = |fields: &str| {
        let (document, _) = read(&outputs(&waiting(1, fields), &NODE.replace("n[0]", "n0"), &[]));
        assert_eq!(document["refused"], json!([]), "{document}");
        document["jobs"][0].clone()
    };
    let why = |reason: &str| {
        let job = of(&format!("Reason={reason} FailedNode=n0"));
        (job["state"].as_str().unwrap_or("").to_string(), job["why"]["code"].as_str().unwrap_or("").to_string())
    };
    for (reason, state, code) in [
        ("Resources", "waiting", "no-free-gpus"),
        ("ReqNodeNotAvail,_UnavailableNodes:n1", "waiting", "node-named"),
        ("MaxJobsPerAccount", "waiting", "quota"),
        ("QOSMaxGRESPerUser", "waiting", "quota"),
        ("QOSNotAllowed", "waiting", "never"),
        ("InvalidAccount", "waiting", "never"),
        ("JobHoldMaxRequeue", "held", "held"),
        ("launch_failed_requeued_held", "held", "held"),
        ("SomethingNew", "waiting", "unknown"),
    ] {
        assert_eq!(why(reason), (state.into(), code.into()), "{reason}");
    }
    assert_eq!(of("Reason=Priority FailedNode=n0")["why"]["said"], "Priority");
    let folder = outputs(&waiting(1, "Reason=SomethingNew"), &NODE.replace("n[0]", "n0"), &[]);
    read(&folder);
    let asked = sandtable(folder.path(), &["what-if", "s.json", "--policy", "fifo"]);
    assert!(asked.stdout.contains("has room; the cluster says SomethingNew"), "{}{}", asked.stdout, asked.stderr);
    assert_eq!(of("Reason=Priority NumNodes=1,2,4-8")["nodes"]["most"], 8);
    assert_eq!(of("Reason=Priority NumNodes=1-15:4")["nodes"]["most"], 15);
    let single = of("Reason=Dependency Dependency=singleton(unfulfilled)");
    assert_eq!((&single["single"], &single["after"]), (&json!(true), &Value::Null));
    let running = "JobId=2 JobState=RUNNING RunTime=INVALID TimeLimit=00:10:00 StartTime=2026-11-22T01:05:33 SubmitTime=2026-11-22T01:05:02 \
                   Partition=p NumNodes=1 TresPerNode=gres:gpu:a100:1\n   Nodes=n0 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:0)\n";
    let (document, _) = read(&outputs(running, &NODE.replace("n[0]", "n0"), &[]));
    assert_eq!((&document["refused"], &document["jobs"][0]["state"]), (&json!([]), &json!("running")));
    let without = running.replace("TresPerNode=gres:gpu:a100:1", "").replace("GRES=gpu:a100:1(IDX:0)", "GRES=");
    let (document, _) = read(&outputs(&without, &NODE.replace("n[0]", "n0"), &[]));
    assert_eq!(document["jobs"][0]["on"], json!([{"node": "n0", "count": 0}]));
}

#[test]
fn singletons_start_one_after_the_other() {
    let single = |number: u32| waiting(number, "Reason=Dependency Dependency=singleton(unfulfilled)");
    let starts = |jobs: &str, asked: &[&str]| {
        let folder = outputs(jobs, &NODE.replace("n[0]", "n0"), &[]);
        read(&folder);
        let ran = sandtable(folder.path(), &[&["what-if", "s.json", "--policy", "fifo"], asked].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let of = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let job = words.first().filter(|_| words.get(1) == Some(&"u"))?;
            Some(format!("{job} {}", words[words.len() - 2..].join(" ")))
        };
        ran.stdout.lines().filter_map(of).collect::<Vec<String>>()
    };
    let plain = waiting(3, "Reason=Priority").replace("01:05:02", "01:05:20");
    let ends =
        |of: &[String]| of.iter().map(|line| line.split_once(' ').expect("a start").1.to_string()).collect::<Vec<_>>();
    // By their numbers, though the first of them was submitted anew.
    for name in ["a", "None"] {
        let jobs = [plain.clone(), single(5), single(4)].concat().replace("JobName=a", &format!("JobName={name}"));
        let mut found = starts(&jobs, &[]);
        found.sort();
        assert_eq!(ends(&found), ["room now", "10.0 min", "20.0 min"], "{found:?}");
        // Without the first the others still wait for each other.
        let mut found = starts(&jobs, &["--kill", "3"]);
        found.sort();
        assert_eq!(ends(&found), ["now -", "min now", "10.0 min"], "{found:?}");
    }
}

#[test]
fn gpus_of_jobs_that_are_not_there_are_not_given_away() {
    let node = "NodeName=n0 Gres=gpu:a100:4 GresUsed=gpu:a100:3(IDX:0-1,3) State=MIXED CPUTot=8\n";
    let job = "JobId=2 JobState=RUNNING RunTime=00:00:10 TimeLimit=00:10:00 StartTime=2026-11-22T01:05:22 SubmitTime=2026-11-22T01:05:02 \
               Partition=p NumNodes=1 TresPerNode=gres:gpu:a100:1\n   Nodes=n0 CPU_IDs=0 Mem=0 GRES=gpu:a100:1(IDX:1)\n";
    let hidden = "Configuration data as of 2026-11-22T01:05:32\nPrivateData             = accounts,jobs\n";
    let hidden = ("scontrol-show-config.txt", hidden);
    let (document, said) = read(&outputs(job, node, &[hidden]));
    assert_eq!(document["nodes"][0]["taken"], json!([0, 3]));
    assert!(said.contains("not modelled: 2 GPUs that others hold"), "{said}");
    // A job whose GPUs are not known by number may have any.
    let (document, _) = read(&outputs(&job.replace("(IDX:1)", ""), node, &[hidden]));
    assert_eq!(document["nodes"][0]["taken"], Value::Null);
    // Where all jobs are told of, one may have begun since they were.
    let (document, _) = read(&outputs(job, node, &[]));
    assert_eq!(document["nodes"][0]["taken"], Value::Null);
    let other =
        job.replace("JobId=2", "JobId=3").replace("01:05:22", "soon").replace("Partition", "NodeList=n0 Partition");
    let (document, _) = read(&outputs(&format!("{job}{other}"), node, &[]));
    assert_eq!((&document["refused"][0]["id"], &document["nodes"][0]["taken"]), (&json!("3"), &json!([0, 3])));
}

#[test]
fn reservations_that_come_again_and_that_never_come_are_told_apart() {
    let of = |flags: &str| {
        let text = format!(
            "ReservationName=r StartTime=2026-11-22T02:00:00 EndTime=2026-11-22T03:00:00 Duration=01:00:00 Nodes=n0 Flags={flags}\n"
        );
        read(&outputs("", &NODE.replace("n[0]", "n0"), &[("scontrol-show-reservation.txt", &text)])).0
    };
    assert_eq!(of("MAINT,SPEC_NODES,DAILY")["reservations"][0]["repeats_s"], 86_400);
    assert_eq!(of("SPEC_NODES,WEEKLY")["reservations"][0]["repeats_s"], 604_800);
    assert_eq!(of("SPEC_NODES")["reservations"][0]["repeats_s"], Value::Null);
    let floats = of("SPEC_NODES,TIME_FLOAT");
    assert_eq!(floats["reservations"], json!([]));
    let counted = json!({"what": "reservations.Flags: TIME_FLOAT, always so long from now on", "count": 1});
    assert!(floats["ignored"].as_array().expect("a list").contains(&counted), "{floats}");
}

#[needs("data:cluster-state")]
#[test]
fn no_name_is_left_of_a_document_with_pseudonyms() {
    let folder = tempfile::tempdir().expect("a folder");
    let from = data("cluster-state/slurm").display().to_string();
    let salt = |name: &str, bytes: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("permitted");
    };
    salt("one", &[7; 32], 0o600);
    salt("two", &[8; 32], 0o600);
    salt("short", &[7; 15], 0o600);
    salt("open", &[7; 32], 0o644);
    let capture = |more: &[&str]| {
        let args = ["capture", "slurm", "--from", &from, "--at", "2026-11-22T01:05:32Z", "-o", "s.json"];
        sandtable(folder.path(), &[&args[..], more].concat())
    };
    let all = "user,account,job,queue,node,reservation";
    assert_eq!(capture(&[]).code, 0);
    let plain = document(folder.path(), "s.json");
    let with = |salt: &str| {
        let ran = capture(&["--pseudonymise", all, "--salt", salt]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        document(folder.path(), "s.json")
    };
    let (one, again, two) = (with("one"), with("one"), with("two"));
    assert_eq!(one, again);
    let words = |value: &Value| {
        fn walk(value: &Value, found: &mut std::collections::BTreeSet<String>) {
            match value {
                Value::String(text) => _ = found.insert(text.clone()),
                Value::Array(all) => all.iter().for_each(|value| walk(value, found)),
                Value::Object(all) => all.values().for_each(|value| walk(value, found)),
                _ => {}
            }
        }
        let mut found = std::collections::BTreeSet::new();
        ["nodes", "queues", "jobs", "reservations"].iter().for_each(|part| walk(&value[*part], &mut found));
        found
    };
    // What is left as it was is the document's own words, and kinds of GPU.
    let left: Vec<String> = words(&plain).intersection(&words(&one)).cloned().collect();
    let own = "a100 behind dependency dependent drained ended held no-free-gpus not-before ok partition qos quota requeue reservation reserved \
               running started suspended up v100 waiting";
    assert_eq!(left.join(" "), own);
    for part in ["nodes", "queues", "reservations"] {
        for named in plain[part].as_array().expect("a list") {
            assert!(!left.iter().any(|word| word == named["name"].as_str().expect("a name")), "{named}");
        }
    }
    for job in plain["jobs"].as_array().expect("jobs") {
        for key in ["id", "name", "user", "account"] {
            assert!(!job[key].as_str().is_some_and(|name| left.iter().any(|word| word == name)), "{key} of {job}");
        }
    }
    // Another salt, other names; and all else is the same.
    let shapes = |value: &Value| {
        value["jobs"].as_array().expect("jobs").iter().map(|job| job["gpus"].clone()).collect::<Vec<_>>()
    };
    assert!(one["jobs"][0]["id"] != two["jobs"][0]["id"] && shapes(&one) == shapes(&plain));
    for (more, expected) in [
        (&["--pseudonymise", all, "--salt", "short"][..], "expected a secret of at least 16 bytes, found 15"),
        (&["--pseudonymise", all, "--salt", "open"], "others may read this secret"),
        (&["--pseudonymise", all], "--salt"),
        (&["--pseudonymise", "city", "--salt", "one"], "invalid value 'city'"),
    ] {
        let ran = capture(more);
        assert!(ran.code == 2 && ran.stderr.contains(expected), "{}", ran.stderr);
    }
}

/// Puts a program into a folder that does this.
fn program(folder: &Path, name: &str, does: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{does}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("may be run");
}

#[test]
fn what_does_not_answer_is_left_out_if_it_may_be() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let job = "JobId=7 Priority=9 UserId=u(1) JobState=PENDING Reason=Resources SubmitTime=2026-11-22T01:05:02 Partition=p NumNodes=1 \
               TresPerNode=gres:gpu:a100:2";
    let node = NODE.trim_end().replace("n[0]", "n0");
    let answers = [
        ("config", "Configuration data as of 2026-11-22T01:05:32"),
        ("job", job),
        ("node", &node),
        ("partition", "PartitionName=p State=UP DefaultTime=00:10:00 PriorityTier=1"),
    ];
    let answers = answers.map(|(asked, says)| format!("{asked}) echo '{says}' ;;")).join("\n");
    program(folder, "scontrol", &format!("case \"$2\" in\n{answers}\nesac"));
    program(folder, "sacctmgr", "exec /bin/sleep 600");
    let args = ["capture", "slurm", "-o", "s.json", "--timeout", "3s"];
    let capture = || ran(command(folder, &args).env("PATH", folder));
    let found = capture();
    let why = "warning: `sacctmgr --readonly --parsable2 show qos` did not answer within 3 s: the document lacks what it would say";
    assert!(found.code == 0 && found.stderr.contains(why), "{}", found.stderr);
    assert!(found.stdout.contains("1 waiting jobs"), "{}{}", found.stdout, found.stderr);
    // What it says and can't be understood is left out too.
    let listed = "Name|Priority|GraceTime|Preempt|PreemptMode|GrpTRES|MaxTRESPU\nlow|x|||||\nhigh|2||low|||";
    program(folder, "sacctmgr", &format!("echo '{listed}'"));
    program(folder, "sshare", "echo 'Account|User'");
    let found = capture();
    assert!(found.code == 0 && !found.stderr.contains("warning"), "{}", found.stderr);
    for refused in [
        "refused: queues: sacctmgr show qos: low: Priority: expected a number, found \"x\"",
        "refused: associations: sshare: expected a column RawShares, found \"Account|User\"",
    ] {
        assert!(found.stdout.contains(refused), "{}", found.stdout);
    }
    program(folder, "scontrol", "exec /bin/sleep 600");
    let found = capture();
    let why = "`scontrol show job -a -d -o` did not answer within 3 s";
    assert!(found.code == 5 && found.stderr.contains(why), "{}", found.stderr);
}

#[test]
fn a_cluster_is_only_read() {
    for command in &slurm::COMMANDS {
        // `sdiag` with any option may reset what it shows.
        let only_reads = matches!(
            command.argv,
            ["sdiag"] | ["sshare", ..] | ["scontrol", "show", ..] | ["sacctmgr", "--readonly", _, "show", ..]
        );
        assert!(only_reads, "{}", command.file);
        assert!(command.argv[1..].iter().all(|word| !word.contains('=')), "{}", command.file);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let gone = ran(command(folder.path(), &["capture", "slurm", "-o", "s.json"]).env("PATH", folder.path()));
    assert!(gone.code == 5 && gone.stderr.contains("`scontrol` can't be run"), "{}", gone.stderr);
    assert!(gone.stderr.contains("hint: --from DIR reads files"), "{}", gone.stderr);
    let nothing = sandtable(folder.path(), &["capture", "slurm", "--from", ".", "-o", "s.json"]);
    assert!(
        nothing.code == 2 && nothing.stderr.contains("scontrol-show-job-d.txt: no such file"),
        "{}",
        nothing.stderr
    );
    assert!(
        nothing.stderr.contains("TZ=UTC SLURM_BITSTR_LEN=0 scontrol show job -a -d -o > scontrol-show-job-d.txt"),
        "{}",
        nothing.stderr
    );
    assert!(!folder.path().join("s.json").exists());
}
