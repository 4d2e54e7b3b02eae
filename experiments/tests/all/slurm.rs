//! Sweeps through a real Slurm: Debian's, on loopback, private to a folder, stopped at the end. Where it is not installed the test
//! says so. One test, since there is one controller.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sandtable_hardware::live::Clock;

use crate::help::{Ran, cells, command, dist, ran, root};
use sandtable_needs::needs;

/// 3 policies x 500 seeds, a millisecond each.
const SPEC: &str = r#"Experiment(
    title: "a sweep",
    fleet: Model(nodes: 2, gpus: 4, kind: "T4", speed: 1.0),
    workload: Generate(jobs: 20, arrivals: Poisson(load: 1.1), durations: LogNormal(median: "20min", sigma: 1.0)),
    policies: [Policy(name: "fifo"), Policy(name: "srtf"), Policy(name: "./mine.wasm", label: "mine")],
    predictors: {"remaining": Oracle},
    seeds: Range(0, 500),
)"#;

/// A GPU each; jobs that sleep.
const ON_GPUS: &str = r#"Experiment(
    title: "observed",
    fleet: Nvidia(devices: Count(1), commands: {"*": ["sh", "-c", "sleep 0.05"]}),
    profile: Inline(Profile(about: "by hand", workloads: [(name: "own", family: "own")], gpus: [Gpu(kind: "H200-SXM-141GB",
        sources: {"all": "by hand"}, solo: {"own": Solo(step_s: Some(0.1), memory_mib: Some(64))})])),
    workload: Jobs([Job(submit: "0s", gpus: 1, duration: "1s", workload: "own")]),
    policies: [Policy(name: "fifo"), Policy(name: "las")],
)"#;

struct Slurm {
    folder: tempfile::TempDir,
    port: u16,
    scheduler: &'static str,
}

fn fixture() -> PathBuf {
    root().join(".ci/slurm-loopback.sh")
}

impl Slurm {
    fn up(scheduler: &'static str) -> Slurm {
        let free = |port: &u16| (0..6).all(|next| TcpListener::bind(("127.0.0.1", port + next)).is_ok());
        let port = (16817..17800).step_by(10).find(free).expect("six free ports");
        let slurm =
            Slurm { folder: tempfile::Builder::new().prefix("sl").tempdir().expect("a folder"), port, scheduler };
        assert_eq!(slurm.fixture("up"), Some(0), "{}", slurm.logs());
        slurm
    }

    fn fixture(&self, verb: &str) -> Option<i32> {
        let mut command = Command::new("bash");
        command.arg(fixture()).arg(verb).arg(self.folder.path()).arg("2").env("SLURM_PORT", self.port.to_string());
        command.env("SLURM_SCHEDULER", self.scheduler);
        // A daemon that inherits a pipe would keep us waiting.
        let ran = command.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("bash");
        let fine = ran.success() || std::thread::panicking();
        assert!(fine, "{verb}: {}", self.logs());
        ran.code()
    }

    fn logs(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("log/slurmctld.log")).unwrap_or_default();
        log.lines().rev().take(20).collect::<Vec<_>>().join("\n")
    }

    fn with<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // As the daemons: there the machine's name means itself.
        let hosts = self.folder.path().join("hosts");
        if hosts.exists() {
            command.env("LD_PRELOAD", "libnss_wrapper.so").env("NSS_WRAPPER_HOSTS", hosts);
        }
        command.env("SLURM_CONF", self.folder.path().join("slurm.conf"))
    }

    fn tool(&self, args: &[&str]) -> String {
        let output = self.with(Command::new(args[0]).args(&args[1..])).output().expect("a tool of Slurm");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// When a job that is over started and ended.
    fn ran(&self, job: &str) -> [jiff::Timestamp; 2] {
        let output = self.with(Command::new("scontrol").args(["show", "job", "-o", job]).env("TZ", "UTC")).output();
        let said = String::from_utf8(output.expect("scontrol").stdout).expect("UTF-8");
        let of = |key: &str| said.split_whitespace().find_map(|word| word.strip_prefix(key));
        ["StartTime=", "EndTime="].map(|key| format!("{}Z", of(key).expect("a time")).parse().expect("a time"))
    }

    /// Until nothing runs or waits any more.
    fn rests(&self) {
        for _ in 0..3000 {
            if self.tool(&["squeue", "-h", "-o", "%i"]).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("jobs that don't end: {}{}", self.tool(&["squeue"]), self.logs());
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.fixture("down");
    }
}

/// A spec and its stores.
struct Sweep<'a> {
    slurm: &'a Slurm,
    folder: tempfile::TempDir,
}

impl Sweep<'_> {
    fn new<'a>(slurm: &'a Slurm, text: &str) -> Sweep<'a> {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("sweep.ron"), text).expect("written");
        std::fs::copy(Path::new(&dist()).join("las.wasm"), folder.path().join("mine.wasm")).expect("copied");
        Sweep { slurm, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, verb: &str, store: &str, more: &[&str]) -> Command {
        let dist = dist();
        let mut args = vec![verb, "sweep.ron", "--policies", &dist, "--store", store];
        args.extend(more);
        let mut command = command(self.folder.path(), &args);
        self.slurm.with(&mut command);
        command
    }

    fn run(&self, verb: &str, store: &str, more: &[&str]) -> Ran {
        ran(&mut self.command(verb, store, more))
    }

    fn submit(&self, store: &str, more: &[&str]) -> Ran {
        let mut args = vec!["--engine", "slurm", "--settle", "1s"];
        args.extend(more);
        let ran = self.run("submit", store, &args);
        assert_eq!(ran.code, 0, "{}{}", ran.stderr, self.slurm.logs());
        ran
    }

    /// What `status` counts: cells, done, missing, failed.
    fn counts(&self, store: &str) -> [usize; 4] {
        let ran = self.run("status", store, &["--format", "csv"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let row: Vec<usize> = ran
            .stdout
            .lines()
            .nth(1)
            .expect("a row")
            .split(',')
            .skip(1)
            .take(4)
            .map(|n| n.parse().expect("a number"))
            .collect();
        row.try_into().expect("four")
    }

    /// Sixteen shards of which four may begin: whatever comes next comes in the middle.
    fn submit_in_part(&self, store: &str) {
        let ran = self.submit(store, &["--shards", "16", "--", "--hold"]);
        self.slurm.tool(&["scontrol", "release", &format!("{}_[0-3]", ran.stdout.trim())]);
    }

    /// Until the store has more results than so many.
    fn has_more_than(&self, store: &str, so_many: usize) {
        for _ in 0..600 {
            if self.counts(store)[1] > so_many {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("nothing happens: {}", self.slurm.logs());
    }

    /// The merged rows, of cells that all have results.
    fn merged(&self, store: &str) -> String {
        let ran = self.run("merge", store, &["--format", "csv"]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    }

    /// The file of that name that the plan's folder has, of the only plan of a store.
    fn page(&self, store: &str, name: &str) -> PathBuf {
        let plans = sandtable::input::sorted(&self.path(store).join("plans")).expect("plans");
        assert_eq!(plans.len(), 1, "{plans:?}");
        plans[0].join(name)
    }

    fn logs(&self, store: &str) -> String {
        let logs = sandtable::input::sorted(&self.page(store, "log")).expect("logs");
        logs.iter().map(|path| std::fs::read_to_string(path).expect("a log")).collect()
    }
}

#[needs("tool:slurmctld", "tool:slurmd", "tool:sbatch", "tool:munged", "loopback:")]
#[test]
fn sweeps_through_a_real_slurm_are_what_one_machine_computes() {
    let clock = Clock::start();
    let slurm = Slurm::up("sched/backfill");
    let sweep = Sweep::new(&slurm, SPEC);
    let local = sweep.run("run", "local", &["--no-progress"]);
    assert_eq!(local.code, 0, "{}", local.stderr);
    let expected = sweep.merged("local");
    assert_eq!(expected.lines().count(), 1501);

    an_array_gives_the_same_bytes(&sweep, &expected);
    held_and_cancelled_nothing_of_it_runs(&sweep);
    cancelled_forgotten_and_submitted_twice_at_once_it_ends_whole(&sweep, &expected);
    failed_and_lost_cells_are_named_and_sent_alone(&slurm);
    cells_on_gpus_have_an_array_of_their_own(&slurm);
    // What the book says of it.
    for (page, least) in [("cluster.md", 6), ("operator.md", 2)] {
        let ran = crate::docs::run_page(&root().join("docs/src").join(page), Some("slurm"), &|command| {
            slurm.with(command);
        });
        assert!(ran >= least, "{page}: {ran}");
    }
    drop(slurm);
    a_capture_in_the_middle_tells_when_waiting_jobs_start();
    // Not captured, and not asserted: the log of CI shows what it costs.
    let seconds = clock.now().since_start() / sandtable_hardware::SECOND;
    writeln!(std::io::stderr(), "the tests against Slurm took {seconds} s").expect("stderr");
}

fn an_array_gives_the_same_bytes(sweep: &Sweep<'_>, expected: &str) {
    let ran = sweep.submit("store", &["--shards", "4"]);
    assert!(ran.stderr.contains("1500 of 1500 cells in 4 shards"), "{}", ran.stderr);
    sweep.slurm.rests();
    assert_eq!(sweep.counts("store"), [1500, 1500, 0, 0], "{}", sweep.logs("store"));
    let merged = std::fs::read_to_string(sweep.page("store", "merged.csv")).expect("the merge's");
    assert!(merged == expected, "{}", sweep.logs("store"));
    assert!(sweep.merged("store") == expected);
    assert_eq!(cells(&sweep.path("store")), cells(&sweep.path("local")));
    // Again: nothing to do, and no job.
    let again = sweep.submit("store", &[]);
    assert!(again.stderr.contains("all 1500 cells have results") && again.stdout.is_empty(), "{}", again.stderr);
    assert_eq!(sweep.slurm.tool(&["squeue", "-h"]), "");
}

fn held_and_cancelled_nothing_of_it_runs(sweep: &Sweep<'_>) {
    // More shards than an array may have, and none of them begins.
    let ran = sweep.submit("twice", &["--shards", "1500", "--", "--hold"]);
    assert!(ran.stderr.contains("1500 of 1500 cells in 1001 shards"), "{}", ran.stderr);
    let held = sweep.slurm.tool(&["squeue", "-h", "-r", "-o", "%K"]);
    assert_eq!(held.lines().filter_map(|index| index.parse::<u32>().ok()).max(), Some(1000));
    let refused = sweep.run("submit", "twice", &["--engine", "slurm"]);
    assert!(refused.code == 2 && refused.stderr.contains("1001 of its shards run or wait"), "{}", refused.stderr);
    assert_eq!(sweep.run("cancel", "twice", &[]).code, 0);
    sweep.slurm.rests();
    assert_eq!(sweep.counts("twice"), [1500, 0, 1500, 0]);
}

fn cancelled_forgotten_and_submitted_twice_at_once_it_ends_whole(sweep: &Sweep<'_>, expected: &str) {
    // Cancelled in the middle: what is there is kept.
    sweep.submit_in_part("twice");
    sweep.has_more_than("twice", 0);
    assert_eq!(sweep.run("cancel", "twice", &[]).code, 0);
    sweep.slurm.rests();
    let [_, done, missing, _] = sweep.counts("twice");
    assert!(done > 0 && missing > 0 && done + missing == 1500, "{done} {missing}");

    // The controller dies in the middle and knows nothing any more: the store does.
    sweep.submit_in_part("twice");
    sweep.has_more_than("twice", done);
    sweep.slurm.fixture("forget");
    let [_, more, missing, failed] = sweep.counts("twice");
    assert!(more > done && missing > 0 && more + missing == 1500 && failed == 0, "{done} {more} {missing}");

    // Two at once, with different shards of the same cells.
    let both: Vec<_> = ["3", "4"]
        .into_iter()
        .map(|shards| {
            let more = ["--engine", "slurm", "--settle", "1s", "--again", "--shards", shards];
            let mut command = sweep.command("submit", "twice", &more);
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for one in both {
        let ended = one.wait_with_output().expect("its end");
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    sweep.slurm.rests();
    assert!(sweep.merged("twice") == expected, "{}", sweep.logs("twice"));
    assert_eq!(cells(&sweep.path("twice")), cells(&sweep.path("local")));
    assert!(!sweep.path("twice/conflicts").exists());
    // What a killed shard had on the way is swept, and nothing else is there.
    let swept =
        sweep.slurm.with(&mut command(sweep.folder.path(), &["store", "gc", "--store", "twice"])).output().expect("gc");
    assert!(String::from_utf8_lossy(&swept.stdout).starts_with("0 cells removed"));
    assert!(sandtable::input::sorted(&sweep.path("twice/tmp")).expect("there").is_empty());
}

fn failed_and_lost_cells_are_named_and_sent_alone(slurm: &Slurm) {
    let sweep = Sweep::new(slurm, &SPEC.replace("Range(0, 500)", "Range(0, 40)"));
    std::fs::write(sweep.path("mine.wasm"), b"\0asm\x01\0\0\0").expect("written");
    // A disk that takes no cell of one shelf: whoever was to write there leaves no record.
    let planned = sweep.run("plan", "store", &["--format", "csv", "--only", "fifo"]);
    let victim = planned.stdout.lines().nth(1).expect("a cell")[..64].to_string();
    std::fs::create_dir_all(sweep.path("store/cells")).expect("made");
    let shelf = sweep.path("store/cells").join(&victim[..2]);
    std::fs::write(&shelf, "in the way").expect("written");
    sweep.submit("store", &["--shards", "4"]);
    slurm.rests();
    let merge = sweep.run("merge", "store", &[]);
    assert_eq!(merge.code, 4, "{}", merge.stderr);
    assert!(merge.stderr.contains(&format!("error: missing: cell {}", &victim[..10])), "{}", merge.stderr);
    assert!(merge.stderr.contains("error: failed: cell ") && merge.stderr.contains("(mine seed "), "{}", merge.stderr);
    let [cells, done, missing, failed] = sweep.counts("store");
    assert!(
        cells == 120 && done + missing + failed == 120 && missing >= 1 && failed >= 35,
        "{done} {missing} {failed}"
    );
    assert!(sweep.logs("store").contains("error: cannot "), "{}", sweep.logs("store"));

    // The disk is repaired: what was lost is sent, what failed is not.
    std::fs::remove_file(&shelf).expect("removed");
    let again = sweep.submit("store", &[]);
    assert!(again.stderr.contains(&format!("{failed} cells failed before and are not sent again")), "{}", again.stderr);
    assert!(again.stderr.contains(&format!("{missing} of 120 cells")), "{}", again.stderr);
    slurm.rests();
    assert_eq!(sweep.run("merge", "store", &[]).code, 3);
    assert_eq!(sweep.counts("store"), [120, 80, 0, 40], "{}", sweep.logs("store"));
    // The policy is repaired: its cells are others, and they alone are sent.
    std::fs::copy(Path::new(&dist()).join("las.wasm"), sweep.path("mine.wasm")).expect("copied");
    let repaired = sweep.submit("store", &["--shards", "2"]);
    assert!(repaired.stderr.contains("40 of 120 cells in 2 shards"), "{}", repaired.stderr);
    slurm.rests();
    assert_eq!(sweep.run("run", "local", &["--no-progress"]).code, 0);
    assert!(sweep.merged("store") == sweep.merged("local"));
}

fn cells_on_gpus_have_an_array_of_their_own(slurm: &Slurm) {
    // No driver here: one that tests made, which only the shards see.
    let here = std::env::current_exe().expect("a path");
    let deps = here.parent().expect("a folder");
    let built = [deps.join("libmock_nvml.so"), deps.parent().expect("a folder").join("libmock_nvml.so")];
    let library = built.iter().find(|path| path.exists());
    let library = library.expect("no libmock_nvml.so: `cargo build -p mock-nvml` builds it");
    let sweep = Sweep::new(slurm, ON_GPUS);
    let driver = sweep.path("driver");
    std::fs::create_dir(&driver).expect("made");
    std::fs::copy(library, driver.join("libnvidia-ml.so.1")).expect("copied");
    std::fs::write(driver.join("libnvidia-ml.so.script"), "count 2\n").expect("written");
    let preload = slurm.folder.path().join("hosts").exists().then_some("LD_PRELOAD,NSS_WRAPPER_HOSTS,");
    let shown = format!("--export=PATH,SLURM_CONF,{}LD_LIBRARY_PATH={}", preload.unwrap_or_default(), driver.display());
    let printed = sweep.submit("store", &["--print"]);
    assert!(printed.stdout.contains("#SBATCH --gres=gpu:1 --exclusive\n"), "{}", printed.stdout);
    assert!(printed.stdout.contains(" --allow-commands --shard "), "{}", printed.stdout);
    let ran = sweep.submit("store", &["--allow-commands", "--", &shown]);
    assert!(ran.stderr.contains("2 of 2 cells in 2 shards, 1 GPU each; at most 8.00 min a shard"), "{}", ran.stderr);
    slurm.rests();
    assert_eq!(sweep.counts("store"), [2, 2, 0, 0], "{}", sweep.logs("store"));
    let merged = std::fs::read_to_string(sweep.page("store", "merged.csv")).expect("the merge's");
    assert_eq!(merged.lines().filter(|row| row.contains("/0001,") && row.contains(",done,")).count(), 2, "{merged}");
    assert_eq!(sweep.merged("store"), merged);
    // Observed once, they are not missing; another array refuses more than a node has.
    assert!(sweep.submit("store", &[]).stderr.contains("all 2 cells have results"));
    std::fs::write(sweep.path("sweep.ron"), ON_GPUS.replace("Count(1)", "Count(3)")).expect("written");
    let refused = sweep.run("submit", "other", &["--engine", "slurm", "--allow-commands"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("Requested node configuration is not available"),
        "{}",
        refused.stderr
    );

    // Slurm says by a variable which devices are a job's; of files that stand for devices it says nothing, so we do.
    let mut own = sweep.command("run", "store", &["--set", "fleet.devices=Count(1)"]);
    let own = own.env("LD_LIBRARY_PATH", &driver).env("CUDA_VISIBLE_DEVICES", "1").output().expect("it runs");
    assert!(own.status.success(), "{}", String::from_utf8_lossy(&own.stderr));
    let mut folder = sweep.path("store/observations");
    for _ in 0..3 {
        folder = sandtable::input::sorted(&folder).expect("a folder").pop().expect("an observation");
    }
    assert!(folder.ends_with("0002"), "{}", folder.display());
    let machine = std::fs::read_to_string(folder.join("machine.json")).expect("a story");
    assert!(machine.contains("NVIDIA H200, 143771 MiB, GPU-00000000-0000-0000-0000-000000000001"), "{machine}");
}

/// Jobs of a queue on 2 nodes of 2 GPUs: nodes, GPUs on each, seconds.
const QUEUE: [(u32, u32, u32); 16] = [
    (1, 1, 3),
    (1, 2, 5),
    (1, 1, 4),
    (2, 2, 2),
    (1, 1, 3),
    (1, 1, 6),
    (1, 2, 3),
    (1, 2, 2),
    (1, 1, 5),
    (2, 1, 3),
    (1, 2, 4),
    (1, 1, 2),
    (2, 2, 3),
    (1, 1, 4),
    (1, 2, 2),
    (1, 1, 1),
];

/// Submits these jobs of the queue, and waits until some of them have started: so many still wait, or fewer.
fn submitted(slurm: &Slurm, queue: &[(u32, u32, u32)], waiting: usize) {
    for (nodes, gpus, seconds) in queue {
        let (nodes, gres, script) = (format!("-N{nodes}"), format!("--gres=gpu:{gpus}"), format!("sleep {seconds}"));
        slurm.tool(&["sbatch", "--parsable", "-t", "5", "-o", "/dev/null", &nodes, &gres, "--wrap", &script]);
    }
    for _ in 0..600 {
        if slurm.tool(&["squeue", "-h", "-t", "PD", "-o", "%i"]).lines().count() <= waiting {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Gives the jobs of a captured state the limits that they then turned out to need; how many waited.
fn with_run_times(slurm: &Slurm, folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("now.json")).expect("a document");
    let mut state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for job in state["jobs"].as_array_mut().expect("jobs") {
        // What Slurm did not know then: how long they ran. It looks once a second, and gives GPUs away a second after they came free:
        // so it was in all four gaps that were looked at.
        let [start, end] = slurm.ran(job["id"].as_str().expect("an id"));
        job["limit_s"] = (end.duration_since(start).as_secs_f64() + 1.0).into();
    }
    std::fs::write(folder.join("now.json"), state.to_string()).expect("written");
    state
}

/// How far the forecasts of waiting jobs are off, seconds: the greatest; and how many waited.
fn worst(slurm: &Slurm, folder: &Path, state: &serde_json::Value, more: &[&str]) -> (f64, u32) {
    let dist = dist();
    let asked =
        ["what-if", "now.json", "--policies", &dist, "--store", "store", "--policy", "fifo", "--format", "json"];
    let said = ran(&mut command(folder, &[&asked[..], more].concat()));
    assert_eq!(said.code, 0, "{}", said.stderr);
    let cluster = if more.is_empty() { "as it is" } else { "changed" };
    let at: jiff::Timestamp = state["at"].as_str().expect("an instant").parse().expect("a time");
    let (mut worst, mut waited) = (0.0f64, 0);
    for line in said.stdout.lines() {
        let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
        if row["cluster"] != cluster {
            continue;
        }
        let real = slurm.ran(row["job"].as_str().expect("an id"))[0].duration_since(at).as_secs_f64();
        let late = row["start_p50_s"].as_f64().expect("it starts") - real;
        assert!(late.abs() <= 2.0, "job {} starts {late} s late: {row}", row["job"]);
        (worst, waited) = (worst.max(late.abs()), waited + 1);
    }
    (worst, waited)
}

/// The queue is captured while it runs, and continued under `fifo` with the run times that then came: all that wait then start within 2 s of when
/// the real Slurm started them. The same where a node is drained just after.
fn a_capture_in_the_middle_tells_when_waiting_jobs_start() {
    let slurm = Slurm::up("sched/builtin");
    let folder = tempfile::tempdir().expect("a folder");
    let capture = || {
        let captured = ran(slurm.with(&mut command(folder.path(), &["capture", "slurm", "-o", "now.json"])));
        assert_eq!(captured.code, 0, "{}", captured.stderr);
    };
    submitted(&slurm, &QUEUE, QUEUE.len() - 5);
    capture();
    slurm.rests();
    let state = with_run_times(&slurm, folder.path());
    let (off, waited) = worst(&slurm, folder.path(), &state, &[]);
    assert!(waited >= 5);
    writeln!(std::io::stderr(), "of a real queue {waited} waiting jobs start within {off:.2} s of the forecast")
        .expect("stderr");
    // On one node: those of two would wait for ever.
    let narrow: Vec<(u32, u32, u32)> = QUEUE.into_iter().filter(|(nodes, ..)| *nodes == 1).take(7).collect();
    for attempt in 1.. {
        submitted(&slurm, &narrow, narrow.len() - 3);
        capture();
        slurm.tool(&["scontrol", "update", "nodename=n1", "state=drain", "reason=test"]);
        let holds = |job: &str| slurm.tool(&["squeue", "-h", "-j", job, "-o", "%N"]).trim() == "n1";
        let text = std::fs::read_to_string(folder.path().join("now.json")).expect("a document");
        let state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let jobs = state["jobs"].as_array().expect("jobs").iter();
        // A job that got the node between the capture and the drain: of that the forecast can't know.
        let between = jobs.filter(|job| job["state"] == "waiting").any(|job| holds(job["id"].as_str().expect("an id")));
        slurm.rests();
        slurm.tool(&["scontrol", "update", "nodename=n1", "state=resume"]);
        if between && attempt < 5 {
            continue;
        }
        let state = with_run_times(&slurm, folder.path());
        let (off, waited) = worst(&slurm, folder.path(), &state, &["--drain", "n1"]);
        assert!(waited >= 3);
        writeln!(
            std::io::stderr(),
            "with a node drained {waited} waiting jobs start within {off:.2} s of the forecast"
        )
        .expect("stderr");
        break;
    }
}
