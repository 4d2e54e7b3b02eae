//! Policies in OCI layouts: put there, named by specs, taken out, and what was changed underneath.

use std::path::Path;

use crate::help::{dist, root, sandtable};

/// A spec whose one policy is this.
fn spec(folder: &Path, policy: &str) {
    let text = format!(
        "Experiment(title: \"t\", fleet: Model(nodes: 1, gpus: 4, kind: \"T4\"), workload: Generate(jobs: 20, arrivals: AtOnce), \
         policies: [Policy(name: {policy:?})])"
    );
    std::fs::write(folder.join("spec.ron"), text).expect("written");
}

fn pushed(folder: &Path, policy: &str, layout: &str) -> String {
    let pushed = sandtable(folder, &["policy", "push", policy, layout]);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    pushed.stdout.trim().to_string()
}

#[test]
fn a_policy_of_a_layout_runs_and_goes_into_the_bundle() {
    let folder = tempfile::tempdir().expect("a folder");
    let las = root().join("policies/dist/las.wasm");
    let name = pushed(folder.path(), &las.display().to_string(), "oci:all/policies");
    assert!(name.starts_with("oci:all/policies#las:0.1.0@sha256:"), "{name}");
    // The same again is the same; another stands beside it.
    assert_eq!(pushed(folder.path(), &las.display().to_string(), "oci:all/policies"), name);
    pushed(folder.path(), &root().join("policies/dist/fifo.wasm").display().to_string(), "oci:all/policies#first");
    spec(folder.path(), &name);
    let run = |args: &[&str]| sandtable(folder.path(), args);
    let ran = run(&["run", "spec.ron", "--store", "store"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("\nlas "), "its label is its name: {}", ran.stdout);
    let digest = |path: &Path| sandtable_core::digest::digest(&std::fs::read(path).expect("a file"));
    let plan = run(&["plan", "spec.ron", "--format", "json", "--store", "store"]);
    assert!(plan.stdout.contains("\"status\":\"cached\""), "{}", plan.stdout);
    let pulled = run(&["policy", "pull", "oci:all/policies#las:0.1.0", "-o", "out.wasm"]);
    assert_eq!(pulled.code, 0, "{}", pulled.stderr);
    assert_eq!(digest(&folder.path().join("out.wasm")), digest(&las));
    let bundled = run(&["bundle", "spec.ron", "--store", "store", "-o", "a.tar.zst"]);
    assert_eq!(bundled.code, 0, "{}", bundled.stderr);
    std::fs::remove_dir_all(folder.path().join("all")).expect("removed");
    let verified = run(&["verify", "a.tar.zst"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
}

#[test]
fn names_without_a_digest_and_changed_bytes_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = pushed(folder.path(), "fifo", "oci:layout#mine");
    let said = |policy: &str| {
        spec(folder.path(), policy);
        let planned = sandtable(folder.path(), &["plan", "spec.ron", "--policies", &dist()]);
        assert_eq!(planned.code, 2);
        planned.stderr
    };
    let by_name = said("oci:layout#mine");
    assert!(by_name.contains(&format!("is named without its digest: `{name}`")), "{by_name}");
    assert!(said("oci:layout").contains("expected `oci:FOLDER#NAME@sha256:HEX`, found `oci:layout`"));
    assert!(said("oci:layout#yours").contains("nothing is called `yours`; it has mine"));
    let hex = name.split("sha256:").nth(1).expect("a digest");
    let blob = |hex: &str| folder.path().join("layout/blobs/sha256").join(hex);
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(blob(hex)).expect("a manifest")).expect("JSON");
    assert_eq!(manifest["layers"][0]["mediaType"], "application/wasm");
    let layer = blob(
        manifest["layers"][0]["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:")).expect("a digest"),
    );
    let mut bytes = std::fs::read(&layer).expect("a layer");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&layer, bytes).expect("written");
    assert!(said(&name).contains("its bytes are not those of its digest"));
    std::fs::write(blob(hex), "{}").expect("written");
    assert!(said(&name).contains("its bytes are not those of its digest"));
    // Several push at once, and one that did not come to its end is taken up.
    std::fs::create_dir_all(folder.path().join("many/blobs/sha256")).expect("made");
    std::thread::scope(|scope| {
        let pushes: Vec<_> = ["fifo", "sjf", "srtf", "las", "edf"]
            .map(|policy| scope.spawn(|| pushed(folder.path(), policy, "oci:many")))
            .into_iter()
            .collect();
        pushes.into_iter().for_each(|push| drop(push.join().expect("pushed")));
    });
    let index = std::fs::read_to_string(folder.path().join("many/index.json")).expect("an index");
    assert_eq!(index.matches("ref.name").count(), 5, "{index}");
    std::fs::write(folder.path().join("many/index.json"), "[]").expect("written");
    let refused = sandtable(folder.path(), &["policy", "push", "fifo", "oci:many"]);
    assert!(refused.code == 2 && refused.stderr.contains("expected an object"), "{}", refused.stderr);
    // A folder of something else is left as it is.
    std::fs::create_dir(folder.path().join("full")).expect("made");
    std::fs::write(folder.path().join("full/file"), "").expect("written");
    let refused = sandtable(folder.path(), &["policy", "push", "fifo", "oci:full#x"]);
    assert!(refused.code == 2 && refused.stderr.contains("no OCI layout"), "{}", refused.stderr);
}
