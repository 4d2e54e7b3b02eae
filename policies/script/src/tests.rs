//! Scripts, against schedules by hand.

use crate::Scripted;
use sandtable_policy::testing::{SMALL, TINY, completion_times, refusal};
use serde_json::json;

fn times(source: &str, more: &str) -> Vec<u64> {
    let mut config: serde_json::Value = serde_json::from_str(more).expect("JSON");
    config["source"] = source.into();
    completion_times::<Scripted>(&config.to_string(), SMALL.0, SMALL.1)
}

#[test]
fn the_order_is_the_scripts() {
    // What the shipped policies make of these jobs.
    let fifo = "def key(job, c):\n    return job.submitted\n";
    assert_eq!(times(fifo, "{\"backfill\": \"none\"}"), [6000, 6990, 15980, 7470, 7060]);
    assert_eq!(times(fifo, "{\"backfill\": \"easy\"}"), [6000, 6990, 15980, 500, 590]);
    assert_eq!(
        times("def key(job, c): return job.remaining", "{\"backfill\": \"none\"}"),
        [6000, 6990, 15980, 500, 590]
    );
    let srtf = "PREEMPT = True\ndef order(job, c):\n    return job.remaining\n";
    assert_eq!(times(srtf, "{}"), [7100, 1500, 10390, 500, 100]);
}

#[test]
fn a_key_may_have_several_numbers_and_know_the_moment_and_parameters() {
    let source = "def order(job, c): return (-(c.now - job.submitted) // params[\"step\"], job.gpus)";
    let config = json!({"source": source, "params": {"step": 1e6}}).to_string();
    assert_eq!(completion_times::<Scripted>(&config, TINY.0, TINY.1), [5000, 6000]);
}

#[test]
fn a_script_may_say_where_jobs_go_and_which_make_room() {
    // The second node first.
    let source = "def key(job, c): return 0\n\
                  def place(job, nodes, c):\n    \
                  for node in reversed(nodes):\n        \
                  if node.free >= job.gpus: return [node.id] * job.gpus\n    \
                  return None\n";
    let config = json!({ "source": source }).to_string();
    assert_eq!(completion_times::<Scripted>(&config, &[2, 2], &[(0, 2, 10), (0, 2, 10), (1, 1, 5)]), [10, 10, 14]);
    // The shortest makes room.
    let source = "def key(job, c): return job.submitted\n\
                  def preempt(job, running, c):\n    return [r.id for r in running if r.remaining > job.remaining]\n";
    let config = json!({ "source": source }).to_string();
    assert_eq!(completion_times::<Scripted>(&config, TINY.0, TINY.1), [7000, 2000]);
}

#[test]
fn what_a_script_leaves_nothing_to_is_refused() {
    let of = |source: &str, more: &str| {
        let mut config: serde_json::Value = serde_json::from_str(more).expect("JSON");
        config["source"] = source.into();
        refusal::<Scripted>(&config.to_string())
    };
    let why = "`backfill`: this script leaves nothing to it";
    assert_eq!(of("PREEMPT = True\ndef order(j, c): return 0", "{\"backfill\": \"easy\"}"), why);
    let place = "def key(j, c): return 0\ndef place(j, n, c): return None";
    assert_eq!(of(place, "{\"placement\": \"count\"}"), "`placement`: this script leaves nothing to it");
}

#[test]
fn what_is_started_in_a_call_is_not_asked_to_make_room_in_it() {
    let source = "def key(job, c): return job.submitted\n\
                  def preempt(job, running, c): return [r.id for r in running if r.gpus > job.gpus]\n";
    let config = json!({ "source": source }).to_string();
    assert_eq!(completion_times::<Scripted>(&config, &[4], &[(0, 3, 100), (0, 2, 50)]), [100, 150]);
}

#[test]
fn a_script_may_say_all_that_starts_and_stops() {
    // First come, first served.
    let fifo = "def decide(waiting, running, nodes, c):\n    return [start(job) for job in waiting]\n";
    assert_eq!(times(fifo, "{}"), times("def key(job, c): return job.submitted", "{}"));
    // The shortest stops the others, and goes to the second node.
    let source = "def decide(waiting, running, nodes, c):\n    \
                  if not waiting: return None\n    \
                  job = min(waiting, key=lambda job: job.remaining)\n    \
                  room = [r for r in running if r.remaining > job.remaining]\n    \
                  return [stop(r) for r in room] + [start(job, [nodes[-1].id] * job.gpus)]\n";
    let config = json!({ "source": source }).to_string();
    assert_eq!(completion_times::<Scripted>(&config, &[1, 1], &[(0, 1, 10), (1, 1, 5)]), [15, 5]);
    // What it can't do.
    let failed = |answer: &str| {
        let source = format!("def decide(waiting, running, nodes, c): return {answer}");
        let config = json!({ "source": source }).to_string();
        std::panic::catch_unwind(|| completion_times::<Scripted>(&config, &[1, 1], &[(0, 1, 10), (1, 1, 5)]))
    };
    for answer in
        ["[stop(0)]", "[start(7)]", "[start(0), start(0)]", "[start(0, [5])]", "[start(0, [0, 0])]", "7", "[7]"]
    {
        assert!(failed(answer).is_err(), "{answer}");
    }
    let refused = |source: &str| refusal::<Scripted>(&json!({ "source": source }).to_string());
    let both = "def key(j, c): return 0\ndef decide(w, r, n, c): return []";
    assert!(refused(both).ends_with("expected one of them"));
    assert!(refused("PREEMPT = True\ndef decide(w, r, n, c): return []").contains("`decide` says all"));
}

#[test]
fn whole_numbers_are_told_apart_or_refused() {
    let source = |text: &str| json!({ "source": format!("def key(job, c): return {text}") }).to_string();
    let failed =
        std::panic::catch_unwind(|| completion_times::<Scripted>(&source("(1 << 64) + job.gpus"), &[1], &[(0, 1, 1)]));
    assert!(failed.is_err(), "2^64 and 2^64 + 1 are one number here");
    assert_eq!(completion_times::<Scripted>(&source("(1 << 52) + job.gpus"), &[1], &[(0, 1, 1)]), [1]);
}

#[test]
fn a_function_that_can_not_be_called_so_has_its_place() {
    for (source, at) in [
        ("x = 1\ndef key(job): return 0", "line 2, column 1, at `def key(job): return 0`: "),
        ("key = lambda: 0\n", "line 1, column 1, at `key = lambda: 0`: "),
        ("def key(job):\n    return 0\nx = [key(1)]\nkey = key", "line 1, column 1, at `def key(job):`: "),
        ("if True:\n    def key(job): return 0", "line 2, column 5, at `def key(job): return 0`: "),
        ("def key(j, c): return 0\n\ndef place(j): return []", "line 3, column 1, at `def place(j): return []`: "),
    ] {
        let config = json!({ "source": source }).to_string();
        let failed = std::panic::catch_unwind(|| completion_times::<Scripted>(&config, &[1], &[(0, 1, 1)]));
        let why = failed.expect_err("a fault");
        let why = why.downcast_ref::<String>().expect("a message");
        assert!(why.contains(at), "{why}");
    }
}

#[test]
fn what_is_wrong_has_its_place() {
    let of = |source: &str| refusal::<Scripted>(&json!({ "source": source }).to_string());
    assert_eq!(
        of("def key(job, c):\n    return nope(job)\n"),
        "`source`: line 2, column 12, at `nope`: Variable `nope` not found, did you mean `None`?"
    );
    assert!(of("def key(job, c):\n    return job.\n").starts_with("`source`: line 2, column 16: Parse error"));
    assert_eq!(of("x = [1, 2][5]"), "`source`: line 1, column 5, at `[1, 2][5]`: Index `5` is out of bound");
    assert_eq!(
        of(""),
        "`source`: expected a function `key(job, c)`, `order(job, c)` or `decide(waiting, running, nodes, c)`, found none"
    );
    assert_eq!(of("key = 1"), "`source`: `key`: expected a function, found 1");
    assert!(of("def key(j, c): return 0\ndef order(j, c): return 0\n").ends_with("expected one of them"));
    assert!(of("EVERY = 0\ndef key(j, c): return 0\n").contains("`EVERY`: expected seconds"));
    assert!(of("load(\"x\", \"y\")\ndef key(j, c): return 0\n").starts_with("`source`: line 1, column 1"));
}
