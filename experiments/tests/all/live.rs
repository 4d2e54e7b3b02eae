//! Jobs that really run, on a core of the CPU that stands in for a GPU: through pause, save, kill, crash, floods and silence;
//! policies that fail or are swapped. Nothing here looks at how long things take.

use std::collections::BTreeMap;
use std::path::PathBuf;

use sandtable::input::sorted;

use crate::guest::{Parts, endless, guest};
use crate::help::{command, dist, sandtable, text_of};

/// A profile of built-in work whose steps nobody measured: short ones.
const PROFILE: &str = "Inline(Profile(about: \"by hand\", workloads: [(name: \"cpu-tenth\", family: \"cpu\"), \
    (name: \"cpu-burn\", family: \"cpu\"), (name: \"cpu-memory\", family: \"cpu\"), (name: \"own\", family: \"own\"), (name: \"other\", family: \"own\")], \
    gpus: [Gpu(kind: \"stand-in\", sources: {\"all\": \"by hand\"}, solo: { \
    \"cpu-tenth\": Solo(step_s: Some(0.1), memory_mib: Some(64)), \"cpu-burn\": Solo(step_s: Some(0.1), memory_mib: Some(64)), \
    \"cpu-memory\": Solo(step_s: Some(0.1), memory_mib: Some(16)), \
    \"own\": Solo(memory_mib: Some(64)), \"other\": Solo(memory_mib: Some(64))})]))";

pub fn spec(fleet: &str, jobs: &str, policies: &str) -> String {
    format!(
        "Experiment(title: \"live\", fleet: Nvidia(devices: StandIn(1), {fleet}), profile: {PROFILE}, \
         workload: Jobs([{jobs}]), policies: [{policies}], predictors: {{\"remaining\": Oracle}})"
    )
}

pub fn job(name: &str, workload: &str, submit: &str, gpus: u32, duration: &str) -> String {
    format!("Job(name: {name:?}, submit: {submit:?}, gpus: {gpus}, duration: {duration:?}, workload: {workload:?}), ")
}

pub fn shell(script: &str) -> String {
    format!("[\"sh\", \"-c\", {script:?}]")
}

pub struct Lived {
    code: i32,
    stdout: String,
    stderr: String,
    folder: tempfile::TempDir,
}

impl Lived {
    /// The folder of the latest observation.
    fn observation(&self) -> PathBuf {
        let mut folder = self.folder.path().join("store/observations");
        for _ in 0..3 {
            folder = sorted(&folder).expect("an observation").pop().expect("at least one");
        }
        folder
    }

    fn read(&self, file: &str) -> String {
        text_of(&self.observation(), file)
    }

    /// A column of `jobs.csv`, by job.
    pub fn column(&self, name: &str) -> BTreeMap<String, String> {
        let text = self.read("jobs.csv");
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let names = rows.next().expect("a header");
        let at = names.iter().position(|known| *known == name).expect("a column");
        rows.map(|row| (row[0].to_string(), row[at].to_string())).collect()
    }
}

pub fn live(text: &str, more: &[&str]) -> Lived {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    live_in(folder, more)
}

fn live_in(folder: tempfile::TempDir, more: &[&str]) -> Lived {
    let policies = dist();
    let mut args = vec!["run", "spec.ron", "--policies", &policies, "--store", "store", "--allow-commands"];
    args.extend(more);
    let ran = sandtable(folder.path(), &args);
    Lived { code: ran.code, stdout: ran.stdout, stderr: ran.stderr, folder }
}

pub const FIFO: &str = "Policy(name: \"fifo\")";

#[test]
fn a_live_run_is_an_observation_and_its_recording_replays_to_the_same_bytes() {
    let jobs = [("a", 1), ("b", 2), ("c", 1)].map(|(name, gpus)| job(name, "cpu-tenth", "0s", gpus, "300ms")).concat();
    let text = spec("slots: 2", &jobs, "Policy(name: \"srtf\")");
    let lived = live(&text, &[]);
    assert_eq!(lived.code, 0, "{}", lived.stderr);
    assert!(lived.column("outcome").values().all(|outcome| outcome == "completed"), "{:?}", lived.column("outcome"));
    let first = lived.observation();
    assert!(first.ends_with("0001"));
    assert!(lived.read("machine.json").contains("a CPU core stands in"));
    assert!(lived.read("readings.csv").starts_with("at_s,device,busy_milli_percent,"));
    // It is run again, not looked up.
    let again = live_in(lived.folder, &[]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(again.observation().ends_with("0002"));
    let verified = sandtable(again.folder.path(), &["verify", "spec.ron", "--store", "store", "--policies", &dist()]);
    assert_eq!(verified.code, 2, "{}", verified.stderr);
    assert!(verified.stderr.contains("can't be computed again"), "{}", verified.stderr);

    std::fs::copy(first.join("recording.jsonl"), again.folder.path().join("run.jsonl")).expect("copied");
    let replayed = text.replace("Nvidia(devices: StandIn(1), slots: 2)", "Replay(\"run.jsonl\")");
    std::fs::write(again.folder.path().join("replay.ron"), &replayed).expect("written");
    let args = ["run", "replay.ron", "--policies", &dist(), "--store", "replays"];
    let ran = sandtable(again.folder.path(), &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("srtf: decides as recorded, in all"), "{}", ran.stderr);
    let mut cell = again.folder.path().join("replays/cells");
    for _ in 0..2 {
        cell = sorted(&cell).expect("a cell").pop().expect("one");
    }
    for file in ["jobs.csv", "summary.json", "timeline.csv"] {
        assert!(text_of(&first, file) == text_of(&cell, file), "{file} differs");
    }
    let verified =
        sandtable(again.folder.path(), &["verify", "replay.ron", "--store", "replays", "--policies", &dist()]);
    assert_eq!(verified.code, 0, "{}", verified.stderr);

    // A recording of other jobs, a changed one, and one that is none.
    let other = replayed.replace("300ms", "400ms");
    std::fs::write(again.folder.path().join("other.ron"), other).expect("written");
    let recording = std::fs::read_to_string(again.folder.path().join("run.jsonl")).expect("a recording");
    std::fs::write(again.folder.path().join("run2.jsonl"), recording.replacen("\"now\":0", "\"now\":1", 1))
        .expect("written");
    std::fs::write(again.folder.path().join("changed.ron"), replayed.replace("run.jsonl", "run2.jsonl"))
        .expect("written");
    std::fs::write(again.folder.path().join("none.ron"), replayed.replace("run.jsonl", "spec.ron")).expect("written");
    // Contradictions, under a hash that is right.
    type Change = fn(&str) -> String;
    fn without(body: &str, what: &str) -> String {
        body.lines().filter(|line| !line.contains(what)).map(|line| format!("{line}\n")).collect()
    }
    let contradictions: [(&str, Change, &str); 6] = [
        (
            "job.ron",
            |body| body.replacen("{\"Running\":0}", "{\"Running\":999}", 1),
            "expected a job below 3, found 999",
        ),
        ("twice.ron", |body| body.replacen("{\"Running\":0}", "{\"Ended\":0}", 1), "job 0"),
        ("round.ron", |body| body.replacen("\"on_events\":true", "\"on_events\":false", 1), "expected the cadence"),
        ("late.ron", |body| body.replacen("\"now\":0", "\"now\":9007199254740992", 1), "time goes from 0"),
        ("steps.ron", |body| without(body, "\"step\""), "contradicts itself"),
        ("calls.ron", |body| without(body, "\"call\""), "no call of a policy"),
    ];
    let (header, body) = recording.split_once('\n').expect("a header");
    for (name, change, why) in contradictions {
        let changed = change(body);
        assert_ne!(changed, body, "{name}");
        let mut head: serde_json::Value = serde_json::from_str(header).expect("JSON");
        head["blake3"] = sandtable::digest::digest(changed.as_bytes()).into();
        let file = format!("{name}.jsonl");
        std::fs::write(again.folder.path().join(&file), format!("{head}\n{changed}")).expect("written");
        std::fs::write(again.folder.path().join(name), replayed.replace("run.jsonl", &file)).expect("written");
        let ran = sandtable(again.folder.path(), &["run", name, "--policies", &dist(), "--store", "replays"]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{name}: {}", ran.stderr);
    }
    let wrong = [
        ("other.ron", "the recording is of other jobs"),
        ("changed.ron", "run2.jsonl:1: the lines that follow were changed"),
        ("none.ron", "expected"),
    ];
    for (file, why) in wrong {
        let ran = sandtable(again.folder.path(), &["run", file, "--policies", &dist(), "--store", "replays"]);
        assert_eq!(ran.code, 2, "{file}: {}", ran.stderr);
        assert!(ran.stderr.contains(why), "{file}: {}", ran.stderr);
    }
}

#[test]
fn jobs_may_crash_be_silent_flood_and_leave_children_and_nobody_is_lost() {
    let commands = [
        ("crash", "echo why >&2; exit 3"),
        ("killed", "kill -SEGV $$"),
        ("silent", "sleep 0.2"),
        ("flood", "i=0; while [ $i -lt 20000 ]; do echo \"$i $i\" >&$SANDTABLE_PROGRESS_FD; i=$((i+1)); done"),
        ("garbage", "head -c 100000 /dev/zero >&$SANDTABLE_PROGRESS_FD; echo nonsense >&$SANDTABLE_PROGRESS_FD"),
        // In its group, in a group of its own, and in a session of its own.
        ("children", "sleep 4321 & timeout 4322 sleep 4323 & setsid sleep 4324 & sleep 0.2; exit 0"),
        // In a session of its own and with nothing in its environment, as a daemon.
        ("daemon", "(setsid env -i /bin/sleep 4325 </dev/null >/dev/null 2>&1 &) ; sleep 0.2; exit 0"),
        // Its name is cut in the middle of a character.
        (
            "accent",
            "cp /bin/sleep ./aaaaaaaaaaaaaaé; (setsid env -i ./aaaaaaaaaaaaaaé 4326 </dev/null >/dev/null 2>&1 &) ; sleep 0.2",
        ),
        // More than anybody keeps; and a log of its own that would lead elsewhere.
        ("writes", "head -c 2000000 /dev/zero > large || exit 7"),
        ("talks", "rm -f log; ln -s /dev/zero log; yes | head -c 300000000; echo; echo last words"),
    ];
    let script: String = commands.iter().map(|(name, script)| format!("{name}) {script};; ")).collect();
    let script = format!("case $SANDTABLE_JOB in {script} esac");
    let jobs: String = commands.iter().map(|(name, _)| job(name, "own", "0s", 1, "1s")).collect();
    let fleet = format!("slots: 3, quiet: \"100ms\", file_size: \"1MiB\", commands: {{\"own\": {}}}", shell(&script));
    let lived = live(&spec(&fleet, &jobs, FIFO), &[]);
    assert_eq!(lived.code, 0, "{}", lived.stderr);
    let outcomes = lived.column("outcome");
    let expected = [
        ("crash", "failed: exit code 3"),
        ("killed", "failed: signal 11"),
        ("silent", "completed"),
        ("flood", "completed"),
        ("garbage", "completed"),
        ("children", "completed"),
        ("daemon", "completed"),
        ("accent", "completed"),
        ("talks", "completed"),
        ("writes", "failed: exit code 7"),
    ];
    for (name, outcome) in expected {
        assert_eq!(outcomes[name], outcome, "{name}");
    }
    assert!(lived.stderr.contains("warning: 3 jobs failed"), "{}", lived.stderr);
    assert!(lived.read("logs.txt").contains("== crash\nwhy\n"), "{}", lived.read("logs.txt"));
    let logs = lived.read("logs.txt");
    assert!(logs.contains("y\ny\n\nlast words\n") && logs.len() < 40_000, "{} bytes", logs.len());
    assert!(lived.stdout.starts_with("policy"), "{}", lived.stdout);
    let all = std::process::Command::new("ps").args(["-eo", "args"]).output().expect("ps runs").stdout;
    let all = String::from_utf8_lossy(&all).into_owned();
    for left in ["sleep 4321", "sleep 4323", "sleep 4324", "/bin/sleep 4325", "./aaaaaaaaaaaaaaé 4326"] {
        assert!(!all.lines().any(|line| line == left), "{left} is left behind");
    }
}

/// Two jobs that end, and some that come, while the host looks elsewhere: each is over once.
#[test]
fn a_host_that_is_held_up_takes_everything_in_as_it_happened() {
    // The host is above the job's guard, which may be held up as well: it does not stay so.
    let script = "case $SANDTABLE_JOB in holds) host=$(ps -o ppid= -p $PPID | tr -d ' '); kill -STOP $host $PPID; \
                  sleep 0.8; kill -CONT $host;; *) sleep 0.3;; esac";
    for levels in ["[Pause]", "[]"] {
        let fleet = format!("slots: 3, preempt: {levels}, quiet: \"50ms\", commands: {{\"own\": {}}}", shell(script));
        let mut jobs = job("a", "own", "0s", 1, "1h") + &job("b", "own", "0s", 1, "1h");
        jobs += &job("holds", "own", "200ms", 1, "1h");
        jobs += &["c", "d", "e"].map(|name| job(name, "own", "600ms", 1, "1h")).concat();
        let lived = live(&spec(&fleet, &jobs, "Policy(name: \"las\", with: {\"limits\": [0.05]})"), &[]);
        assert_eq!(lived.code, 0, "{levels}: {}", lived.stderr);
        let outcomes = lived.column("outcome");
        assert!(outcomes.values().all(|outcome| outcome == "completed"), "{levels}: {outcomes:?}");
    }
}

/// A gang of two slots saves once, and goes on where it was.
#[test]
fn a_gang_of_built_in_work_saves_as_one() {
    for _ in 0..3 {
        let jobs = job("gang", "cpu-tenth", "0s", 2, "20s") + &job("short", "cpu-tenth", "400ms", 2, "100ms");
        let policies = "Policy(name: \"las\", with: {\"limits\": [0.1]})";
        let lived = live(&spec("slots: 2", &jobs, policies), &[]);
        assert_eq!(lived.code, 0, "{}", lived.stderr);
        let outcomes = lived.column("outcome");
        assert!(outcomes.values().all(|outcome| outcome == "completed"), "{outcomes:?}");
        assert_eq!((lived.column("preemptions")["gang"].as_str(), lived.column("lost_s")["gang"].as_str()), ("1", "0"));
    }
}

/// ATS resizes real processes: each change is a save and a start on other slots.
#[test]
fn elastic_jobs_change_their_slots_and_end() {
    let elastic = "elastic: Elastic(initial_batch: 64, most_batch: 512, least_local: 8, most_local: 512, epochs: 2, \
        tunable: false, restart_s: 1.0, resize_s: 1.0, requests: [], steps: Fitted((compute: (0.005, 0.0001), \
        across: (0.01, 0.0), within: (0.002, 0.0), gamma: 1.5)), learning: Fitted(steps: 100.0, noise: [(0.0, 500.0)]))";
    let jobs: String = ["0s", "0s", "1s"]
        .map(|submit| format!("Job(submit: {submit:?}, gpus: 1, workload: \"cpu-tenth\", batch: 64), "))
        .concat();
    let policy = "Policy(name: \"ats\", with: {\"round\": 1, \"restart_delay\": 1})";
    let plain = "(name: \"cpu-tenth\", family: \"cpu\")";
    let text = spec("slots: 4", &jobs, policy)
        .replacen(plain, &format!("(name: \"cpu-tenth\", family: \"cpu\", {elastic})"), 1)
        .replace("step_s: Some(0.1)", "step_s: Some(0.011)");
    let lived = live(&text, &[]);
    assert_eq!(lived.code, 0, "{}", lived.stderr);
    let outcomes = lived.column("outcome");
    assert!(outcomes.values().all(|outcome| outcome == "completed"), "{outcomes:?}");
    let moved: u32 = lived.column("reassignments").values().map(|count| count.parse::<u32>().expect("a number")).sum();
    assert!(moved > 0, "{}", lived.read("jobs.csv"));
}

/// Each way of putting a job aside: the long job gives way to a short one, and ends all the same.
#[test]
fn preempted_jobs_are_put_aside_in_every_way_and_end() {
    // Counts to 200 and goes on from what it saved; says when it begins.
    let counts = "i=0; [ -n \"$SANDTABLE_RESTORE\" ] && i=$(cat \"$SANDTABLE_RESTORE\"); echo begins at $i; \
        trap 'echo $i > \"$SANDTABLE_STATE\"; exit 75' USR1; \
        while [ $i -lt 200 ]; do i=$((i+1)); echo \"$i $((i*10000))\" >&$SANDTABLE_PROGRESS_FD; sleep 0.01; done";
    for (levels, begins) in [("[Save]", 2), ("[Suspend, Pause]", 1), ("[]", 2)] {
        let fleet = format!(
            "preempt: {levels}, quiet: \"10s\", commands: {{\"own\": {}, \"other\": [\"true\"]}}",
            shell(counts)
        );
        let jobs = job("long", "own", "0s", 1, "1h") + &job("short", "other", "700ms", 1, "1s");
        let policies = "Policy(name: \"las\", with: {\"limits\": [0.1]})";
        let lived = live(&spec(&fleet, &jobs, policies), &["--log"]);
        assert_eq!(lived.code, 0, "{levels}: {}", lived.stderr);
        let outcomes = lived.column("outcome");
        assert!(outcomes.values().all(|outcome| outcome == "completed"), "{levels}: {outcomes:?}");
        assert_eq!(lived.column("preemptions")["long"], "1", "{levels}: {}", lived.read("jobs.csv"));
        let log = lived.read("logs.txt");
        assert_eq!(log.matches("begins at").count(), begins, "{levels}: {log}");
        let anew = log.matches("begins at 0").count();
        assert_eq!(anew, if levels == "[]" { 2 } else { 1 }, "{levels}: {log}");
        assert_eq!(lived.column("lost_s")["long"] != "0", levels == "[]", "{levels}");
    }
}

#[test]
fn whoever_does_not_answer_is_killed_and_whoever_takes_too_much_memory_ends() {
    // Built-in work, and a budget of a quarter of what it takes: no shell whose forks may fail.
    let deaf = shell("trap '' TERM USR1; echo begins; sleep 0.6");
    let fleet = format!(
        "preempt: [Save], quiet: \"50ms\", patience: \"100ms\", limit: \"60s\", \
         commands: {{\"own\": {deaf}, \"other\": [\"true\"]}}"
    );
    let jobs = job("deaf", "own", "0s", 1, "1h")
        + &job("short", "other", "200ms", 1, "1s")
        + &job("hog", "cpu-memory", "300ms", 1, "1h");
    let text = spec(&fleet, &jobs, "Policy(name: \"las\", with: {\"limits\": [0.1]})");
    let lived = live(&text, &[]);
    let story = format!("{}\n{}\n{}", lived.stderr, lived.read("jobs.csv"), lived.read("logs.txt"));
    assert_eq!(lived.code, 0, "{story}");
    let outcomes = lived.column("outcome");
    assert_eq!(outcomes["short"], "completed", "{story}");
    assert_eq!(outcomes["deaf"], "completed", "{story}");
    assert_eq!(outcomes["hog"], "failed: signal 9", "{story}");
    assert!(lived.read("logs.txt").contains("MiB of the 16 that it may take"), "{story}");
}

#[test]
fn policies_are_swapped_and_fail_while_jobs_run() {
    let jobs: String = (0..6).map(|at| job(&format!("j{at}"), "cpu-tenth", "0s", 1, "300ms")).collect();
    let swapped = live(&spec("", &jobs, FIFO), &["--swap-at", "50ms=srtf", "--swap-at", "100ms=las"]);
    assert_eq!(swapped.code, 0, "{}", swapped.stderr);
    assert!(swapped.column("outcome").values().all(|outcome| outcome == "completed"));
    let story: serde_json::Value = serde_json::from_str(&swapped.read("machine.json")).expect("JSON");
    let names: Vec<&str> =
        story["takeovers"].as_array().expect("a list").iter().filter_map(|of| of["to"].as_str()).collect();
    assert_eq!(names, ["srtf", "las"]);

    // By a signal and a file, by what is no component, and by one that can't begin.
    let folder = tempfile::tempdir().expect("a folder");
    let mine = folder.path().join("mine.wasm").display().to_string();
    let script = format!(
        "host=$(ps -o ppid= -p $PPID | tr -d ' '); cp {}/srtf.wasm {mine}; kill -HUP $host; sleep 1; echo none > {mine}; \
         kill -HUP $host; sleep 0.3",
        dist()
    );
    let fleet = format!("slots: 2, quiet: \"50ms\", commands: {{\"own\": {}}}", shell(&script));
    let both = job("signals", "own", "0s", 1, "1s") + &job("other", "cpu-tenth", "200ms", 1, "300ms");
    let swapped = live(&spec(&fleet, &both, FIFO), &["--swap-file", &mine, "--swap-at", "100ms=gandiva-like"]);
    assert_eq!(swapped.code, 0, "{}", swapped.stderr);
    assert!(swapped.stderr.contains("mine.wasm takes over"), "{}", swapped.stderr);
    assert!(swapped.stderr.contains("mine.wasm can't take over: not WebAssembly"), "{}", swapped.stderr);
    assert!(swapped.stderr.contains("the policy before it goes on"), "{}", swapped.stderr);
    assert!(swapped.column("outcome").values().all(|outcome| outcome == "completed"));

    let folder = tempfile::tempdir().expect("a folder");
    let evil = [("traps", "(unreachable)".to_string()), ("slow", endless(""))];
    for (name, decide) in evil {
        let bytes = guest(&Parts { decide, ..Parts::default() });
        let path = folder.path().join(format!("{name}.wasm"));
        std::fs::write(&path, bytes).expect("written");
        let policy = format!("Policy(name: {:?})", path.display().to_string());
        let text = spec("decide: \"50ms\"", &jobs, &policy)
            .replace("predictors:", "limits: Limits(fuel: 4503599627370496), predictors:");
        let lived = live(&text, &[]);
        // The run is lost and says so; the jobs are not.
        assert_eq!(lived.code, 3, "{name}: {}", lived.stderr);
        assert!(lived.stderr.contains("WARNING: the jobs go on under fifo"), "{name}: {}", lived.stderr);
        assert!(lived.column("outcome").values().all(|outcome| outcome == "completed"), "{name}");
    }
}

#[test]
fn the_limit_of_a_run_ends_every_job() {
    // One waits for a slot, one is submitted long after the limit.
    let jobs = job("a", "own", "0s", 1, "1h") + &job("b", "own", "0s", 1, "1h") + &job("c", "own", "1h", 1, "1h");
    let fleet = format!("limit: \"500ms\", quiet: \"50ms\", commands: {{\"own\": {}}}", shell("sleep 1000"));
    let lived = live(&spec(&fleet, &jobs, FIFO), &[]);
    assert_eq!(lived.code, 0, "{}", lived.stderr);
    assert!(
        lived.column("outcome").values().all(|outcome| outcome == "failed: signal 9"),
        "{:?}",
        lived.column("outcome")
    );
    assert!(lived.read("recording.jsonl").len() < 100_000);
}

/// The host's secrets are its own.
#[test]
fn jobs_are_given_what_the_spec_lists_and_what_every_program_needs() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "echo \"secret=$HF_TOKEN listed=$WANDB_MODE device=$CUDA_VISIBLE_DEVICES job=$SANDTABLE_JOB\"; test -n \"$PATH\"";
    let fleet = format!("quiet: \"50ms\", environment: [\"WANDB_MODE\"], commands: {{\"own\": {}}}", shell(script));
    let text = spec(&fleet, &job("a", "own", "0s", 1, "1s"), FIFO);
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let mut host =
        command(folder.path(), &["run", "spec.ron", "--policies", &dist(), "--store", "store", "--allow-commands"]);
    host.envs([("HF_TOKEN", "s3cret"), ("WANDB_MODE", "offline"), ("CUDA_VISIBLE_DEVICES", "0")]);
    let output = host.output().expect("a host");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let lived = Lived { code: output.status.code().unwrap_or(-1), stdout: String::new(), stderr, folder };
    assert_eq!(lived.code, 0, "{}", lived.stderr);
    let logs = lived.read("logs.txt");
    assert!(logs.contains("secret= listed=offline device=0 job=a\n"), "{logs}");
}

#[test]
fn mistakes_of_a_live_spec_are_errors_that_say_what_was_expected() {
    let jobs = job("a", "own", "0s", 1, "1s");
    let of = |fleet: &str| spec(fleet, &jobs, FIFO);
    let wrong = [
        (of(""), "job \"a\" is of the workload \"own\", for which there is no command"),
        (of("commands: {\"own\": []}"), "the command of \"own\" is empty"),
        (of("commands: {\"own\": [\"sh\", \"-c\", \"train {job}\"]}"), "the command of \"own\" has {job} in a script"),
        (of("commands: {\"own\": [\"x\", \"{steps}\"]}"), "its command wants {steps}, the profile has no `step_s`"),
        (of("slots: 65"), "expected 1 to 64 slots of a device, found 65"),
        (
            of("slots: 2, sharing: Packed(2)"),
            "a device of 2 virtual slots must be a part of a node, and its slots exclusive",
        ),
        (of("slot: 2"), "found `slot`"),
        (of("").replace("StandIn(1)", "StandIn(0)"), "expected 1 to 64 stand-ins, found 0"),
        (
            of("").replace(
                "workload: Jobs",
                "serving: Serving(services: {\"a\": Service(cold_start: \"1s\")}), workload: Jobs",
            ),
            "this is of modelled fleets",
        ),
    ];
    for (text, why) in wrong {
        let lived = live(&text, &[]);
        assert_eq!(lived.code, 2, "{why}: {}", lived.stderr);
        let lines = lived.stderr.replace('\n', " ");
        assert!(lines.contains(why) || why.starts_with("found"), "{why}: {}", lived.stderr);
    }
    // On a model policies are not swapped.
    let text =
        of("").replace("Nvidia(devices: StandIn(1), )", "Model(nodes: 1, gpus: 1, kind: \"stand-in\", speed: 1.0)");
    let lived = live(&text, &["--swap-at", "1s=srtf"]);
    assert_eq!(lived.code, 2, "{}", lived.stderr);
    assert!(lived.stderr.contains("a policy is swapped while jobs really run"), "{}", lived.stderr);
}
