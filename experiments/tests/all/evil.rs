//! Evil policies beside a good one, through the command: each ends its own cell with its own error, the others
//! complete, and what failed in a decision replays from its capsule.

use crate::guest::{ANSWER, Act, HEAP, Parts, endless, guest, once_ready, raw_plan, then_decide};
use crate::help::{cells, dist, sandtable};

fn decide(body: impl Into<String>) -> Parts {
    Parts { decide: body.into(), ..Parts::default() }
}

fn plan(acts: Vec<Act>) -> Parts {
    Parts { plans: vec![acts], ..decide(then_decide("")) }
}

/// Files of guests, by name.
fn guests() -> Vec<(&'static str, Vec<u8>)> {
    let evil = |parts: &Parts| guest(parts);
    let recursion = Parts {
        declare: "(func $deeper (call $deeper) (call $deeper))".into(),
        ..decide("(call $deeper) (unreachable)")
    };
    let words = "(call $panic (i32.const 4096) (i32.const 14)) (unreachable)";
    let panic = Parts { text: b"boom at x.rs:1".to_vec(), ..decide(words) };
    let log = then_decide("(call $write (i32.const 1) (i32.const 4096) (i32.const 2000))");
    let memory = "(loop $again (drop (memory.grow (i32.const 64))) (br $again)) (unreachable)";
    let million = Parts { memory: "512".into(), ..decide(raw_plan(HEAP as u32, 1_000_000)) };
    let imports = endless(&format!("(call $free (i32.const {ANSWER}))"));
    let sound = guest(&Parts::default());
    vec![
        ("endless-loop", evil(&decide(endless("")))),
        ("endless-allocation", evil(&decide(memory))),
        ("deep-recursion", evil(&recursion)),
        ("panic", evil(&panic)),
        ("million-actions", evil(&million)),
        ("unknown-job", evil(&plan(vec![Act::Start(99, vec![0])]))),
        ("unknown-gpu", evil(&plan(vec![Act::Start(0, vec![4_000_000])]))),
        ("log-flood", evil(&decide(endless("(call $write (i32.const 1) (i32.const 4096) (i32.const 2000))")))),
        ("log-lines", evil(&decide(log))),
        ("import-flood", evil(&decide(imports))),
        ("realloc-spins", evil(&Parts { realloc: once_ready(&endless("")), ..decide(then_decide("")) })),
        ("wrong-world", wat::parse_str("(component)").expect("a component")),
        ("core-module", wat::parse_str("(module)").expect("a module")),
        ("truncated", sound[..200].to_vec()),
        ("empty", Vec::new()),
    ]
}

#[test]
fn each_ends_its_own_cell_and_no_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut policies = String::from("Policy(name: \"fifo\"), ");
    for (name, bytes) in guests() {
        std::fs::write(folder.path().join(format!("{name}.wasm")), bytes).expect("written");
        policies.push_str(&format!("Policy(name: \"./{name}.wasm\"), "));
    }
    let spec = format!(
        "Experiment(title: \"evil\", fleet: Model(nodes: 1, gpus: 4, kind: \"K80\"), \
         workload: Generate(jobs: 20, arrivals: Poisson(load: 0.8), durations: Fixed(\"60s\"), gpus: {{1: 1.0}}), \
         policies: [{policies}], limits: Limits(fuel: 20000000))"
    );
    std::fs::write(folder.path().join("spec.ron"), spec).expect("written");
    let ran = sandtable(folder.path(), &["run", "spec.ron", "--policies", &dist()]);
    assert_eq!(ran.code, 3);
    let errors: Vec<&str> = ran.stderr.lines().filter(|line| line.starts_with("error")).collect();
    let done: Vec<&str> = ran.stdout.lines().filter(|line| !line.contains("failed")).collect();
    // Where the cut falls moves with the guest.
    insta::with_settings!({filters => vec![(r"offset 0x[0-9a-f]+", "offset [cut]")]}, {
        insta::assert_snapshot!(format!("{}\n---\n{}\n", errors.join("\n"), done.join("\n")));
    });
    // What failed while it decided left a capsule, which replays to the same fault.
    let store = folder.path().join("store");
    let capsules: Vec<_> = cells(&store).into_iter().filter(|(path, _)| path.ends_with("capsule.json.zst")).collect();
    // Where the stack ends depends on the machine: that failure is not kept.
    assert_eq!(capsules.len(), 9);
    for (path, _) in capsules {
        let story = std::fs::read_to_string(store.join(&path).with_file_name("cell.json")).expect("cell.json");
        let inputs: serde_json::Value = serde_json::from_str(&story).expect("JSON");
        let digest = inputs["policy"]["blake3"].as_str().expect("a digest").to_string();
        let policy =
            guests().into_iter().find(|(_, bytes)| sandtable::digest::digest(bytes) == digest).expect("a guest").0;
        let (capsule, policy) = (store.join(&path).display().to_string(), format!("./{policy}.wasm"));
        let ran = sandtable(folder.path(), &["policy", "replay", &capsule, "--policy", &policy]);
        assert_eq!(ran.code, 0, "{policy}: {}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("the same fault"), "{policy}: {}", ran.stdout);
    }
}
