//! The files that specs and their edits name.

use std::path::Path;

use super::specs::later;
use crate::help::root;

/// Writes them all.
pub(super) fn write(folder: &Path) {
    let table = "id,at,n,s,vc\nx,0,1,10,a\ny,1,2,20,b\nz,2,1,30,a\nw,3,4,40,a\nv,9,1,5,b\nu,10,1,6,b\n";
    std::fs::write(folder.join("t.csv"), table).expect("written");
    std::fs::write(folder.join("n.csv"), "gpus,kind,cpus\n4,T4,8\n2,T4,8\n").expect("written");
    std::fs::write(folder.join("m.csv"), "gpus,kind,cpus\n4,T4,8\n2,T4,9\n").expect("written");
    std::fs::write(folder.join("o.csv"), "gpu,model,cpu_milli,memory_mib\n4,T4,8000,1\n").expect("written");
    let state = r#"{"sandtable": "state@1", "at": "2026-11-20T00:00:00Z", "source": {"kind": "other"}, "queues": [{"name": "q", "kind": "queue"}], "reservations": [],
        "unknown": [], "ignored": [], "nodes": [{"name": "n", "gpus": 2, "kind": "g", "state": "up"}, {"name": "m", "gpus": 2, "kind": "g", "state": "down"}],
        "jobs": [{"id": "j", "state": "waiting", "gpus": 1, "limit_s": 60, "submitted_s": -9}, {"id": "k", "state": "waiting", "gpus": 1,
        "limit_s": 60, "submitted_s": -9}, {"id": "l", "state": "waiting", "gpus": 1, "limit_s": 60, "submitted_s": -9}]}"#;
    std::fs::write(folder.join("h.csv"), "submit_s,gpus,duration_s\n0,1,30\n1,1,40\n").expect("written");
    std::fs::write(folder.join("i.csv"), "submit_s,gpus,duration_s\n0,1,30\n1,1,50\n").expect("written");
    let log =
        "JobID|Submit|Start|End|ReqTRES\n1|2026-11-19T00:00:00|2026-11-19T00:00:00|2026-11-19T00:01:00|gres/gpu=1\n";
    std::fs::write(folder.join("h.txt"), log).expect("written");
    let charged = log.replace("ReqTRES\n", "ReqTRES|Account|QOS\n").replace("gpu=1\n", "gpu=1|phys|high\n");
    std::fs::write(folder.join("a.txt"), charged).expect("written");
    std::fs::write(folder.join("s.json"), state).expect("written");
    std::fs::write(folder.join("r.json"), later(state)).expect("written");
    std::fs::write(folder.join("s.csv"), "gpus,kind\n2,h\n").expect("written");
    std::fs::write(folder.join("u.csv"), table.replace("30", "31")).expect("written");
    let profile = std::fs::read_to_string(root().join("experiments/specs/profiles/pollux-fit.ron")).expect("a profile");
    let (fit, other) = ("restart_s: 24.0", "restart_s: 25.0");
    assert!(profile.contains(fit), "the profile has another constant now");
    std::fs::write(folder.join("other.ron"), profile.replacen(fit, other, 1)).expect("written");
}
