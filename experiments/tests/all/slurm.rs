//! Sweeps through a real Slurm: Debian's, on loopback, private to a folder, stopped at the end. Where it is not installed the test
//! says so. One test, since there is one controller.

mod daemons;
mod queue;
mod watched;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sandtable_hardware::live::Clock;

use daemons::Slurm;
use queue::a_capture_in_the_middle_tells_when_waiting_jobs_start;

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
    for (page, least) in [("cluster.md", 6), ("operator.md", 4)] {
        let ran = crate::docs::run_page(&root().join("docs/src").join(page), Some("slurm"), &|command| {
            slurm.with(command);
        });
        assert!(ran >= least, "{page}: {ran}");
    }
    drop(slurm);
    let begun = clock.now();
    a_capture_in_the_middle_tells_when_waiting_jobs_start();
    // Not captured, and not asserted: the log of CI shows what it costs.
    let seconds = clock.now().since_start() / sandtable_hardware::SECOND;
    let queue = clock.now().saturating_since(begun) / sandtable_hardware::SECOND;
    writeln!(std::io::stderr(), "the tests against Slurm took {seconds} s, {queue} of them those of a real queue")
        .expect("stderr");
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
