//! Components that are to cost the host its time, its memory or its life, and compiled code that was changed.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use sandtable::input::sorted;
use sandtable_runtime::fault::{Fault, LoadFault};
use sandtable_runtime::sandbox::{Budget, Compiler, Sandbox, Settings};

use crate::attacks;
use crate::guest::leb;
use crate::help::{Ran, cells, command, dist, ran, sandtable};

/// A component of one section of types: types of instances in each other, so many.
fn nested_types(depth: usize) -> Vec<u8> {
    let types = [vec![1], [0x42, 1, 1].repeat(depth), vec![0x42, 0]].concat();
    [b"\0asm\x0d\0\x01\0\x07".to_vec(), leb(types.len()), types].concat()
}

/// A component of functions that have so many locals and loops in each other.
fn bomb(functions: usize, locals: usize, loops: usize) -> Vec<u8> {
    let locals_text = " i32".repeat(locals);
    let body: String = (0..loops)
        .map(|at| {
            format!("(loop (local.set {0} (i32.add (local.get {0}) (local.get {1})))", at % locals, (at * 7) % locals)
        })
        .collect();
    let function = format!("(func (local{locals_text}) {body} {})", ")".repeat(loops));
    wat::parse_str(format!("(component (core module {}))", function.repeat(functions))).expect("a component")
}

pub fn spec(policies: &[&str]) -> String {
    let policies: String = policies.iter().map(|name| format!("Policy(name: \"{name}\"), ")).collect();
    format!(
        "Experiment(title: \"hostile\", fleet: Model(nodes: 1, gpus: 2, kind: \"g\", speed: 1.0), policies: [{policies}], \
         workload: Jobs([Job(submit: \"0s\", gpus: 1, duration: \"100s\"), Job(submit: \"5s\", gpus: 2, duration: \"50s\")]), \
         seeds: Range(0, 2))"
    )
}

/// A folder with a spec of these policies, and the cache of this test alone.
pub fn folder(policies: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("spec.ron"), spec(policies)).expect("written");
    folder
}

pub fn run(folder: &Path, store: &str, more: &[&str]) -> Ran {
    let dist = dist();
    let args = [&["run", "spec.ron", "--store", store, "--no-progress", "--policies", &dist], more].concat();
    ran(command(folder, &args).env("XDG_CACHE_HOME", folder.join("cache")))
}

fn code(folder: &Path) -> PathBuf {
    folder.join("cache/sandtable/code")
}

#[test]
fn code_is_kept_for_its_user_alone_and_never_in_a_store() {
    let folder = folder(&["fifo"]);
    // What somebody put there is nobody's business.
    std::fs::create_dir_all(folder.path().join("store/code/modules/x")).expect("made");
    let ran = run(folder.path(), "store", &[]);
    assert_eq!((ran.code, ran.stderr.contains("warning")), (0, false), "{}", ran.stderr);
    assert_eq!(sorted(&folder.path().join("store/code")).expect("there").len(), 1);
    let kept = sorted(&code(folder.path())).expect("kept");
    assert_eq!(kept.len(), 1);
    for path in [code(folder.path()), code(folder.path()).parent().expect("a folder").into()] {
        assert_eq!(path.metadata().expect("there").mode() & 0o777, 0o700, "{}", path.display());
    }
    assert_eq!(kept[0].metadata().expect("there").mode() & 0o777, 0o600);
    // A store that holds the cache, and a cache that others can write to, are gone without.
    std::fs::set_permissions(code(folder.path()), std::fs::Permissions::from_mode(0o777)).expect("set");
    let ran = run(folder.path(), "other", &[]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("warning: compiled code is not kept: ") && ran.stderr.contains("mode 777"),
        "{}",
        ran.stderr
    );
    std::fs::remove_dir_all(folder.path().join("cache")).expect("removed");
    let ran = run(folder.path(), ".", &[]);
    assert_eq!((ran.code, code(folder.path()).exists()), (0, false), "{}", ran.stderr);
}

#[test]
fn code_that_was_changed_is_compiled_again() {
    let folder = folder(&["fifo"]);
    assert_eq!(run(folder.path(), "store", &[]).code, 0);
    let before = cells(&folder.path().join("store"));
    let kept = sorted(&code(folder.path())).expect("kept").remove(0);
    let whole = std::fs::read(&kept).expect("code");
    for (at, part) in [0, 20, 60, 5_000, 400_000, 700_000, whole.len() - 1].into_iter().enumerate() {
        let mut flipped = whole.clone();
        flipped[part] ^= 1 << (at % 8);
        std::fs::write(&kept, flipped).expect("written");
        let ran = run(folder.path(), "store", &["--recheck", "100%"]);
        assert_eq!(ran.code, 0, "byte {part}: {}", ran.stderr);
        assert_eq!(std::fs::read(&kept).expect("code"), whole, "byte {part}");
    }
    let after = cells(&folder.path().join("store"));
    assert!(before == after && !folder.path().join("store/conflicts").exists());
}

#[test]
fn a_bad_component_costs_the_others_nothing() {
    let folder = folder(&["fifo", "./types.wasm", "./bomb.wasm", "las"]);
    std::fs::write(folder.path().join("types.wasm"), nested_types(5_000)).expect("written");
    std::fs::write(folder.path().join("bomb.wasm"), bomb(1, 1_000, 2_000)).expect("written");
    let ran = run(folder.path(), "store", &["--format", "csv"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    let list = sandtable(folder.path(), &["store", "list", "--store", "store", "--format", "csv"]).stdout;
    assert_eq!([",done,", ",failed,"].map(|state| list.matches(state).count()), [4, 4], "{list}");
    for why in ["types of components and instances inside of types", "locals × blocks in function 1"] {
        assert!(ran.stderr.contains(why) || ran.stdout.contains(why), "{why}: {}{}", ran.stdout, ran.stderr);
    }
}

/// What becomes of a component that is compiled by the command within a budget.
fn compiled(bytes: &[u8], budget: Budget) -> Result<(), Fault> {
    let compiler = Compiler {
        program: env!("CARGO_BIN_EXE_sandtable").into(),
        arguments: vec!["compile-component".into()],
        budget,
    };
    let settings = Settings { compiler: Some(compiler), ..Settings::default() };
    Sandbox::new(&settings).expect("an engine").load(bytes).map(drop)
}

#[test]
fn compiling_ends_at_its_limits() {
    let invalid = |why: &str| Err(Fault::Load(LoadFault::Invalid(why.into())));
    // Within every bound of its shape.
    let slow = bomb(200, 490, 1_000);
    let budget = Budget::default();
    let within = Budget { seconds: 1, ..budget };
    assert_eq!(compiled(&slow, within), invalid("compiling it takes more than 1 s of CPU time"));
    // How much it takes depends on the number of threads: on one it compiles within 200 MiB, on two not within 300.
    let within = Budget { bytes: 120 << 20, ..budget };
    assert_eq!(compiled(&slow, within), invalid("compiling it takes more than 120 MiB of memory"));
    let small = bomb(1, 1, 1);
    assert!(matches!(compiled(&small, budget), Err(Fault::Load(LoadFault::WrongWorld(_)))));
    assert!(matches!(compiled(b"\0asm\x0d\0\x01\0\xff", budget), Err(Fault::Load(LoadFault::Invalid(_)))));
    // Of a program that does not compile nothing is the component's fault.
    let settings = |program: &str| {
        let compiler = Compiler { program: program.into(), arguments: vec![], budget };
        Settings { compiler: Some(compiler), ..Settings::default() }
    };
    for program in ["/bin/false", "/nowhere"] {
        let outcome = Sandbox::new(&settings(program)).expect("an engine").load(&small).map(drop);
        assert!(matches!(outcome, Err(Fault::Machine(_))), "{program}: {outcome:?}");
    }
}

/// The guests of `attacks.md` that filled the host's memory or never ended: what becomes of each, in at most 700 MB.
#[test]
fn guests_fill_no_memory_of_the_host_and_end() {
    let expected = [
        ("tape-bomb", attacks::tape_bomb(), "out-of-fuel", 8_000_000_000u64),
        ("pair-speed-memo", attacks::pair_speed_memo(), "out-of-fuel-of-run", 8_000_000_000),
        ("fails-late", attacks::fails_late(), "trap", 8_000_000_000),
        ("burning", attacks::burning(), "out-of-fuel-of-run", 8_000_000_000),
        // So many calls that their recording would take gigabytes.
        ("idle", attacks::idle(), "out-of-fuel-of-run", 200_000_000),
        ("asks-for-ever", attacks::asks_for_ever(), "out-of-fuel", 8_000_000_000),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (name, bytes, kind, fuel) in expected {
        std::fs::write(folder.path().join(format!("{name}.wasm")), bytes).expect("written");
        let text = format!(
            "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"K80\"), limits: Limits(run_fuel: {fuel}), \
             workload: Generate(jobs: 20, arrivals: Poisson(load: 0.9), durations: LogNormal(median: \"20min\", sigma: 1.4), \
             gpus: {{1: 1.0}}), policies: [Policy(name: \"./{name}.wasm\")])"
        );
        std::fs::write(folder.path().join("spec.ron"), text).expect("written");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "ulimit -d 700000; exec \"$0\" run spec.ron --store store --no-progress --jobs 1"]);
        shell.arg(env!("CARGO_BIN_EXE_sandtable")).current_dir(folder.path());
        let output = shell.env("XDG_CACHE_HOME", folder.path().join("cache")).output().expect("a shell");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{name}: {said}");
        assert!(said.contains(&format!("{name} {kind}: ")), "{name}: {said}");
    }
}

/// A predictor's fuel is its asker's.
#[test]
fn a_policy_pays_for_what_its_predictor_uses() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("burn.wasm"), attacks::burning_predictor()).expect("written");
    let text = "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"P100-PCIE-16GB\", sharing: Packed(2)), \
         profile: File(\"gavel-fit.ron\"), reveal: [SoloProfile, Memory], \
         workload: Generate(jobs: 40, arrivals: Poisson(load: 1.5), durations: LogNormal(median: \"20min\", sigma: 1.0), \
         gpus: {1: 1.0}), policies: [Policy(name: \"clwp-nlwp\")], predictors: {\"pair-speed\": Oracle, \
         \"similarity\": Component(name: \"./burn.wasm\")})";
    std::fs::write(folder.path().join("spec.ron"), text).expect("written");
    let dist = dist();
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--store", "s", "--policies", &dist, "--no-progress"]);
    assert_eq!(ran.code, 3, "{}", ran.stderr);
    assert!(ran.stderr.contains("clwp-nlwp out-of-fuel: "), "{}", ran.stderr);
}

#[test]
fn a_cell_that_takes_too_long_has_no_result_and_the_others_have() {
    let folder = folder(&["fifo", "las"]);
    let ran = run(folder.path(), "store", &["--timeout", "0.000001s", "--format", "csv"]);
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert!(ran.stderr.contains("4 cells took longer than --timeout and have no result"), "{}", ran.stderr);
    // Neither policy has failed.
    assert!(ran.stdout.contains("fifo,,0,0,2") && ran.stdout.contains("las,,0,0,2"), "{}", ran.stdout);
    assert!(cells(&folder.path().join("store")).is_empty());
    assert_eq!(run(folder.path(), "store", &["--timeout", "10min"]).code, 0);
    assert_eq!(cells(&folder.path().join("store")).len(), 4 * 6);
}

/// What the machine lacks is not the policy's fault, and is not kept.
#[test]
fn a_shortage_of_the_host_leaves_no_result() {
    let folder = folder(&["fifo"]);
    let shell = |limit: &str| {
        let mut shell = std::process::Command::new("sh");
        let run = "exec \"$0\" run spec.ron --store store --no-progress";
        shell.args(["-c", &format!("{limit}; {run}"), env!("CARGO_BIN_EXE_sandtable")]).current_dir(folder.path());
        let output = shell.env("XDG_CACHE_HOME", folder.path().join("cache")).output().expect("a shell");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A guest's memory is reserved as 4 GiB of addresses.
    let (code, said) = shell("ulimit -v 4000000");
    assert!(code == Some(2) && said.contains("this machine failed"), "{code:?}: {said}");
    assert!(cells(&folder.path().join("store")).is_empty());
    // Files that may not grow: an error of the store, and no signal.
    let (code, said) = shell("ulimit -f 1");
    assert!(code == Some(2) && said.contains("File too large"), "{code:?}: {said}");
    assert!(cells(&folder.path().join("store")).is_empty());
    assert!(sorted(&folder.path().join("store/tmp")).expect("there").is_empty());
    let (code, said) = shell("true");
    assert_eq!(code, Some(0), "{said}");
}
