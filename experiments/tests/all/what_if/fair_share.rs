//! Questions to a real Slurm whose priorities change with what its users use.

use std::path::Path;

use serde_json::{Value, json};

use super::{folder_with, golden, off, what_if};
use crate::help::{dist, sandtable, told};

/// A real Slurm with accounts, captured while 61 jobs of four users waited, and what its accounting said in the end.
#[test]
fn a_forecast_follows_the_fair_share_of_a_real_slurm() {
    let folder = folder_with("slurm-fair-share");
    let off = |policy: &[&str]| off(folder.path(), 61, policy);
    let (follows, stays) = (off(&[]), off(&["--policy", "slurm-backfill,weight_age=0,weight_fair_share=0"]));
    // By its name it is the cluster's too, but for what is asked for.
    assert_eq!(off(&["--policy", "slurm-backfill"]), follows);
    assert_eq!(off(&["--policy", "slurm-backfill,depth=100"]), follows);
    told(&format!(
        "off by {:.1} and {:.1} s; {:.1} and {:.1} s where priorities stay",
        follows.0, follows.1, stays.0, stays.1
    ));
    assert!(follows.0 <= 10.0 && follows.1 <= 60.0);
    assert!(stays.0 >= 60.0 && stays.1 >= 120.0);
}

/// Accounts that hold accounts and users, users in none, and jobs of users that are not listed; shadows and added jobs too.
#[test]
fn fair_shares_of_any_tree_are_asked() {
    let golden: Value = serde_json::from_str(&golden("slurm-fair-share-now.json")).expect("a document");
    let with = |change: &dyn Fn(&mut Value)| {
        let mut state = golden.clone();
        change(&mut state);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("now.json"), state.to_string()).expect("written");
        folder
    };
    let list = |state: &mut Value, of: Value| state["associations"].as_array_mut().expect("a list").push(of);
    let starts = |folder: &Path, args: &[&str]| {
        let said = what_if(folder, args);
        assert_eq!(said.code, 0, "{}", said.stderr);
        said.stdout
    };
    starts(with(&|state| list(state, json!({"account": "vision", "user": "boss", "shares": 1}))).path(), &[]);
    let nested = with(&|state| {
        list(state, json!({"account": "deep", "within": "vision", "shares": 4e9}));
        list(state, json!({"account": "deep", "user": "u1", "shares": 1, "used": 5}));
    });
    starts(nested.path(), &[]);
    for (of, said) in [
        (json!({"account": "x", "within": "nowhere"}), "associations[7]: no account \"nowhere\" comes before it"),
        (json!({"account": "nlp", "user": "u2"}), "associations[7]: \"u2\" is there twice"),
        (
            json!({"account": "nlp", "user": "n", "shares": -1.0}),
            "associations[7]: `shares`: expected a number from 0 to 1e15, found -1",
        ),
    ] {
        let refused = what_if(with(&|state| list(state, of.clone())).path(), &[]);
        assert!(
            refused.code == 2 && refused.stderr.contains(said) && refused.stderr.contains("now.json"),
            "{}",
            refused.stderr
        );
    }
    let folder = with(&|_| ());
    std::fs::create_dir(folder.path().join("polls")).expect("a folder");
    std::fs::rename(folder.path().join("now.json"), folder.path().join("polls/a.json")).expect("moved");
    let mut later = golden.clone();
    later["at"] = "2026-11-28T20:53:45Z".into();
    std::fs::write(folder.path().join("polls/b.json"), later.to_string()).expect("written");
    let ran = sandtable(folder.path(), &["shadow", "report", "polls", "--policies", &dist()]);
    assert!(ran.code == 0 && ran.stdout.contains("slurm-backfill"), "{}{}", ran.stdout, ran.stderr);
}
