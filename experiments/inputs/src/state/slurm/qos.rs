//! Qualities of service as `sacctmgr` lists them: their priorities, how many GPUs their jobs may have, and whose jobs take GPUs from whose.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::preemption::mode;
use super::text::{gpus, span};

/// The name of a quality of service among queues.
pub(super) fn named(name: &str) -> String {
    format!("qos/{name}")
}

/// What `sacctmgr show qos` lists with a head, `|` between columns, and what of it is refused since it can't be understood. `usual` is the cluster's `PreemptMode`, `kind` the
/// name of a kind of GPU.
///
/// # Errors
/// A column that is not there.
pub(super) fn qualities(
    text: &str,
    usual: Option<&str>,
    kind: impl Fn(&str) -> String,
) -> Result<(Vec<Value>, Vec<Value>), String> {
    let mut lines = text.lines();
    let Some(head) = lines.next() else { return Ok(Default::default()) };
    let column = |name: &str| {
        let found = head.split('|').position(|word| word == name);
        found.ok_or_else(|| format!("sacctmgr show qos: expected a column {name}, found {head:?}"))
    };
    let [name, priority, grace, preempt, way, in_all, per_user] = [
        column("Name")?,
        column("Priority")?,
        column("GraceTime")?,
        column("Preempt")?,
        column("PreemptMode")?,
        column("GrpTRES")?,
        column("MaxTRESPU")?,
    ];
    let one = |line: &str| {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let of = |at: usize| fields.get(at).copied().filter(|text| !text.is_empty());
        let wrong = |what: &str, expected: &str, text: &str| {
            let name = of(name).unwrap_or("");
            // Its name is in the words alone, which pseudonyms leave out.
            let why = format!("sacctmgr show qos: {name}: {what}: expected {expected}, found {text:?}");
            json!({"what": "queues", "id": null, "why": why})
        };
        let limit = |at: usize, what: &str| {
            let text = of(at).unwrap_or("");
            let all = gpus(text).map_err(|why| wrong(what, &why, text))?;
            // Of the model's numbers any is one of GPUs in all, `*`, or of a kind.
            let each = all.into_iter().map(|gpu| (gpu.kind.map_or("*".into(), |word| kind(&word)), gpu.count.into()));
            let each: Map<String, Value> = each.collect();
            Ok::<_, Value>((!each.is_empty()).then_some(each))
        };
        let number = |text: &str| text.parse::<f64>().map_err(|_| wrong("Priority", "a number", text));
        let time = |text: &str| span(text).ok_or_else(|| wrong("GraceTime", "a time as 00:02:00", text));
        let preempts = of(preempt).into_iter().flat_map(|names| names.split(',')).map(named);
        Ok(json!({
            "name": named(of(name).unwrap_or("")),
            "kind": "qos",
            "priority": of(priority).map(number).transpose()?,
            "limit": limit(in_all, "GrpTRES")?,
            "limit_per_user": limit(per_user, "MaxTRESPU")?,
            "preempt": of(way).filter(|way| *way != "cluster").or(usual).and_then(mode),
            "preempts": preempts.collect::<Vec<String>>(),
            "grace_s": of(grace).map(time).transpose()?.filter(|grace| *grace > 0.0),
        }))
    };
    let (mut all, mut refused): (Vec<Value>, Vec<Value>) = Default::default();
    for row in lines.filter(|line| !line.trim().is_empty()) {
        match one(row) {
            Ok(quality) => all.push(quality),
            Err(misread) => refused.push(misread),
        }
    }
    let names: BTreeSet<String> = all.iter().filter_map(|of| of["name"].as_str().map(str::to_string)).collect();
    // One that is no more, or is refused.
    for preempts in all.iter_mut().filter_map(|of| of["preempts"].as_array_mut()) {
        preempts.retain(|of| of.as_str().is_some_and(|of| names.contains(of)));
    }
    Ok((all, refused))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Name|Priority|GraceTime|Preempt|PreemptMode|GrpTRES|MaxTRESPU";

    fn listed(rows: &str) -> (Vec<Value>, Vec<Value>) {
        qualities(&format!("{HEAD}\n{rows}\n"), Some("REQUEUE"), str::to_uppercase).expect("its columns are there")
    }

    #[test]
    fn limits_and_who_preempts_whom_are_read() {
        let found = listed(
            "normal|50|00:00:00|low,gone|cluster||\nlow|10|00:02:00||cancel|cpu=64,gres/gpu=6|gres/gpu:a100=2,gres/gpu:h100=1",
        );
        let expected = json!([
            {"name": "qos/normal", "kind": "qos", "priority": 50.0, "limit": null, "limit_per_user": null, "preempt": "requeue",
             "preempts": ["qos/low"], "grace_s": null},
            {"name": "qos/low", "kind": "qos", "priority": 10.0, "limit": {"*": 6}, "limit_per_user": {"A100": 2, "H100": 1},
             "preempt": "cancel", "preempts": [], "grace_s": 120.0},
        ]);
        assert_eq!((Value::from(found.0), found.1), (expected, Vec::new()));
        assert_eq!(qualities("", None, str::to_string), Ok(Default::default()));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (rows, why) in [
            ("low|x||||", "low: Priority: expected a number, found \"x\""),
            ("low|1|soon|||", "low: GraceTime: expected a time as 00:02:00, found \"soon\""),
            ("low|1||||gres/gpu:a100=many", "low: GrpTRES: expected"),
        ] {
            let (found, refused) = listed(&format!("{rows}\nhigh|2||low|||"));
            // The others are there, and preempt none that is not.
            assert!(found.len() == 1 && found[0]["name"] == "qos/high", "{found:?}");
            assert_eq!(found[0]["preempts"], json!([]));
            assert_eq!(refused.len(), 1);
            let found = refused[0]["why"].as_str().expect("words");
            assert!(found.starts_with(&format!("sacctmgr show qos: {why}")), "{found}");
        }
        let found = qualities("Name|Priority\n", None, str::to_string).expect_err("columns are missing");
        assert_eq!(found, "sacctmgr show qos: expected a column GraceTime, found \"Name|Priority\"");
    }
}
