//! Jobs whose device memory is moved to the host and back. No GPU is needed: what moves memory is a function of the test, which
//! waits until it may answer, so that the order of everything is the test's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};

use sandtable_hardware::live::{Level, Live, Output, Setting, Task};
use sandtable_hardware::{
    Backend, BackendEvent, Cause, Costs, Device, Duration, Fleet, GpuId, GpuType, Instant, Job, JobId, Move,
    MoveMemory, PerformanceModel, Reading, SECOND, Settings, StandIn, StopMode, Telemetry,
};

/// The answers that a mover gives, in order; it waits for each.
struct Answers(Mutex<Vec<bool>>, Condvar);

impl Answers {
    const fn none() -> Answers {
        Answers(Mutex::new(Vec::new()), Condvar::new())
    }

    fn give(&self, answer: bool) {
        self.0.lock().expect("no test panics with it").push(answer);
        self.1.notify_all();
    }

    fn take(&self) -> Result<(), String> {
        let answers = self.0.lock().expect("no test panics with it");
        let mut answers = self.1.wait_while(answers, |answers| answers.is_empty()).expect("likewise");
        if answers.remove(0) { Ok(()) } else { Err("refused by the test".into()) }
    }
}

/// CPU cores whose jobs' memory is moved by a function of the test.
struct Movable(StandIn, MoveMemory);

impl Telemetry for Movable {
    fn devices(&self) -> &[Device] {
        self.0.devices()
    }

    fn read(&mut self, device: usize, at: Instant) -> Reading {
        self.0.read(device, at)
    }

    fn processes(&mut self, device: usize) -> Option<Vec<(u32, u64)>> {
        self.0.processes(device)
    }

    fn settings(&mut self) -> Settings {
        self.0.settings()
    }

    fn versions(&mut self) -> BTreeMap<String, String> {
        self.0.versions()
    }

    fn environment(&self, device: usize) -> Vec<(String, String)> {
        self.0.environment(device)
    }

    fn mover(&self) -> Option<MoveMemory> {
        Some(self.1)
    }
}

const LONG: JobId = JobId::new(0);
const SHORT: JobId = JobId::new(1);

struct Bench {
    live: Live,
    outputs: Vec<Output>,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// A job that does not end by itself, and one that ends at once, on two devices.
    fn new(mover: MoveMemory, levels: &[Level]) -> Bench {
        let fleet = Fleet::new(&[(1, 2, GpuType::new("core", 1.0))], Costs::default(), None).expect("a fleet");
        let jobs = ["long", "short"].map(|name| Job::new(name, Instant::START, 1, SECOND));
        let task = |script: &str| Task {
            argv: ["sh", "-c", script].map(str::to_string).to_vec(),
            steps: 0,
            levels: levels.to_vec(),
        };
        let folder = tempfile::tempdir().expect("a folder");
        let setting = Setting {
            program: PathBuf::from(env!("CARGO_BIN_EXE_sandtable")),
            folder: folder.path().to_path_buf(),
            passed: Vec::new(),
            file_bytes: 1 << 20,
            tasks: vec![task("echo 1 1 >&$SANDTABLE_PROGRESS_FD; exec sleep 1000"), task("true")],
            quiet: 600 * SECOND,
            patience: 600 * SECOND,
            limit: 600 * SECOND,
            slot_mib: 0,
            poll_wakeup: Box::new(|| false),
        };
        let laws = Arc::new(PerformanceModel::none());
        let telemetry = Box::new(Movable(StandIn::new(2, 0), mover));
        let live = Live::new(fleet, jobs.to_vec().into(), laws, telemetry, setting);
        let outputs = live.outputs();
        Bench { live, outputs, _folder: folder }
    }

    fn start(&mut self, job: JobId) {
        let mut happened = Vec::new();
        self.live.start(job, &[GpuId::new(job.number())], None, &mut happened);
        assert!(happened.is_empty());
    }

    /// Told to leave: what happens at once.
    fn stop(&mut self, job: JobId) -> Vec<BackendEvent> {
        self.stop_by(job, StopMode::Checkpoint)
    }

    fn stop_by(&mut self, job: JobId, mode: StopMode) -> Vec<BackendEvent> {
        let mut happened = Vec::new();
        self.live.stop(job, mode, &mut happened);
        happened.into_iter().map(|event| event.what).collect()
    }

    /// The long job runs.
    fn runs(mover: MoveMemory, levels: &[Level]) -> Bench {
        let mut bench = Bench::new(mover, levels);
        bench.start(LONG);
        assert_eq!(bench.next(), BackendEvent::Running(LONG));
        bench
    }

    /// The memory of the long job, which runs, is moved to the host.
    fn suspend(&mut self, answers: &Answers) {
        assert_eq!(self.stop(LONG), []);
        answers.give(true);
        assert_eq!(self.next(), RELEASED);
    }

    /// The long job is killed, and what it did is lost.
    fn is_killed(&mut self) {
        let BackendEvent::Released { job: LONG, lost, .. } = self.next() else { panic!("it is killed") };
        assert!(lost > Duration::ZERO);
    }

    /// What happens next.
    fn next(&mut self) -> BackendEvent {
        let mut happened = Vec::new();
        self.live.advance(Some(Instant::at(500 * SECOND)), &mut happened);
        happened.first().unwrap_or_else(|| panic!("nothing in 500 s: {:?}", self.said())).what
    }

    fn said(&self) -> String {
        self.outputs[LONG.index()].last(4096)
    }
}

const RELEASED: BackendEvent = BackendEvent::Released { job: LONG, cause: Cause::Asked, lost: Duration::ZERO };

#[test]
fn while_memory_moves_other_jobs_start_and_end() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend]);
    assert_eq!(bench.stop(LONG), [], "its slots are not free before its memory is");
    bench.start(SHORT);
    assert_eq!([bench.next(), bench.next()], [BackendEvent::Running(SHORT), BackendEvent::Ended(SHORT)]);
    ANSWERS.give(true);
    assert_eq!(bench.next(), RELEASED);
    // It comes back to the same process.
    bench.start(LONG);
    ANSWERS.give(true);
    assert_eq!(bench.next(), BackendEvent::Running(LONG));
    assert_eq!(bench.said(), "");
}

#[test]
fn where_memory_cannot_be_moved_the_next_way_is_taken() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend, Level::Pause]);
    assert_eq!(bench.stop(LONG), []);
    ANSWERS.give(false);
    assert_eq!(bench.next(), RELEASED);
    assert_eq!(bench.said(), "sandtable: can't be put aside by Suspend: refused by the test\n");
    bench.start(LONG);
    assert_eq!(bench.next(), BackendEvent::Running(LONG), "it was paused, and goes on");
}

#[test]
fn where_memory_cannot_be_brought_back_the_job_begins_anew() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend]);
    bench.suspend(&ANSWERS);
    bench.start(LONG);
    ANSWERS.give(false);
    assert_eq!(bench.next(), BackendEvent::Running(LONG));
    let said = "sandtable: its memory can't be moved back, it begins anew: refused by the test\n";
    assert_eq!(bench.said(), said);
    // What it had done is lost, and told when it next lets its slots go.
    assert_eq!(bench.stop(LONG), []);
    ANSWERS.give(false);
    bench.is_killed();
}

#[test]
fn a_job_that_is_told_to_leave_while_it_comes_back_leaves_when_it_has_come() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend]);
    bench.suspend(&ANSWERS);
    bench.start(LONG);
    assert_eq!(bench.stop(LONG), []);
    ANSWERS.give(true);
    ANSWERS.give(true);
    assert_eq!(bench.next(), RELEASED);
    bench.start(LONG);
    assert_eq!(bench.stop(LONG), []);
    // That it can't come back leaves only its end.
    ANSWERS.give(false);
    bench.is_killed();
}

#[test]
fn a_job_that_is_to_be_killed_does_not_wait_for_its_memory() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend]);
    // While its memory moves away; the driver answers when it is over.
    assert_eq!((bench.stop(LONG), bench.stop_by(LONG, StopMode::Kill)), (vec![], vec![]));
    bench.is_killed();
    ANSWERS.give(false);
    // And while it comes back.
    bench.start(LONG);
    assert_eq!(bench.next(), BackendEvent::Running(LONG));
    bench.suspend(&ANSWERS);
    bench.start(LONG);
    assert_eq!(bench.stop_by(LONG, StopMode::Kill), []);
    bench.is_killed();
    ANSWERS.give(false);
}

#[test]
fn a_job_that_moves_meanwhile_begins_anew_with_its_other_slots() {
    static ANSWERS: Answers = Answers::none();
    let mut bench = Bench::runs(|_, _| ANSWERS.take(), &[Level::Suspend]);
    assert_eq!(bench.stop(LONG), []);
    let elsewhere = Move { job: LONG, gpus: vec![GpuId::new(1)], split: None };
    bench.live.reassign(vec![elsewhere], &mut Vec::new());
    ANSWERS.give(true);
    assert_eq!(bench.next(), BackendEvent::Running(LONG));
    // What it did before it moved is lost, and told now.
    assert_eq!(bench.stop_by(LONG, StopMode::Kill), []);
    bench.is_killed();
}
