//! Figures for a paper, and results beside each other: as wide as a column, the same every time, pair by pair.

use sandtable_needs::needs;

use crate::results::{SPEC, ask, lines, results, swept};

/// A font to set words in.
const FONT: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";

#[needs("file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")]
#[test]
fn prints_are_the_same_every_time() {
    let folder = results(SPEC);
    for (file, begins) in [("a.pdf", &b"%PDF-"[..]), ("a.png", b"\x89PNG")] {
        let written = || {
            let ran = ask(folder.path(), &["report", "spec.ron", "-o", file, "--figure", "waiting", "--font", FONT]);
            assert_eq!(ran.code, 0, "{}", ran.stderr);
            std::fs::read(folder.path().join(file)).expect("a file")
        };
        let first = written();
        assert!(first.starts_with(begins), "{file}");
        assert!(first == written(), "{file} is not the same twice");
    }
    // Words as outlines: no text is left, and what it shows is still said.
    let outlined =
        ["report", "spec.ron", "-o", "o.svg", "--figure", "jct", "--width", "3.3in", "--font", FONT, "--outlines"];
    assert_eq!(ask(folder.path(), &outlined).code, 0);
    let svg = std::fs::read_to_string(folder.path().join("o.svg")).expect("a file");
    assert!(!svg.contains("<text") && svg.contains("width=\"237.6pt\""), "{}", &svg[..300]);
    assert!(svg.contains("aria-label=\"Job completion time\""), "{}", &svg[..300]);
}

#[test]
fn figures_are_as_wide_as_a_column_and_the_same_every_time() {
    let folder = results(&swept());
    let report = |args: &[&str]| {
        let mut all = vec!["report", "spec.ron"];
        all.extend(args);
        let ran = ask(folder.path(), &all);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.stdout
    };
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    let paper = ["--width", "3.3in", "--no-title", "--grey-safe"];
    report(&[&["-o", "a.svg", "--figure", "jct"], &paper[..]].concat());
    let svg = text("a.svg");
    assert!(svg.contains("width=\"237.6pt\"") && !svg.contains("Job completion time</text>"), "{}", &svg[..400]);
    let list = report(&["--figure", "list"]);
    let names: Vec<&str> = list.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(
        names.len() >= 8
            && names.contains(&"policies")
            && names.contains(&"ranks")
            && names.contains(&"waiting-p95-by-gpus"),
        "{list}"
    );
    for name in names {
        report(&["-o", "x.svg", "--figure", name]);
        let svg = text("x.svg");
        assert!(svg.contains("<svg") && !svg.contains("NaN"), "{name}");
    }
    let missing = ask(folder.path(), &["report", "spec.ron", "-o", "a.pdf", "--font", "No Such Font"]);
    assert!(missing.code == 2 && missing.stderr.contains("no font `No Such Font`"), "{}", missing.stderr);
}

/// Rows of jobs say when they ran by the log's clock, and on which kind of GPU; figures tell jobs apart by that.
#[test]
fn jobs_have_dates_and_the_kind_of_gpu_that_they_ran_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
    let kind = |name: &str| format!("Group(nodes: 1, gpus: 1, kind: \"{name}\", speed: 1)");
    write(
        "spec.ron",
        &format!(
            "Experiment(title: \"t\", fleet: Model(groups: [{}, {}]), workload: Trace(file: \"log.txt\", format: Sacct), \
             policies: [Policy(name: \"fifo\")])",
            kind("T4"),
            kind("V100-SXM2-16GB")
        ),
    );
    let job = |id: u32, submit: &str, end: &str, gpus: u32| {
        format!(
            "{id}|2026-11-01T{submit}|2026-11-01T{submit}|2026-11-01T{end}|COMPLETED|gres/gpu={gpus}|gres/gpu={gpus}\n"
        )
    };
    let head = "JobID|Submit|Start|End|State|ReqTRES|AllocTRES\n".to_string();
    write(
        "log.txt",
        &(head
            + &job(1, "00:00:00", "00:10:00", 1)
            + &job(2, "00:01:00", "00:11:00", 1)
            + &job(3, "00:02:00", "00:03:00", 1)),
    );
    assert_eq!(ask(folder.path(), &["run", "spec.ron"]).code, 0);
    let report = |args: &[&str]| ask(folder.path(), &[&["report", "spec.ron"], args].concat());
    assert_eq!(report(&["--rows", "jobs", "-o", "jobs.jsonl"]).code, 0);
    let text = std::fs::read_to_string(folder.path().join("jobs.jsonl")).expect("a file");
    let of = |row: &str| {
        let row: serde_json::Value = serde_json::from_str(row).expect("JSON");
        ["ran_on", "submitted", "first_started", "ended"].map(|name| row[name].as_str().expect("a text").to_string())
    };
    let at = |time: &str| format!("2026-11-01 {time}");
    let rows: Vec<[String; 4]> = text.lines().map(of).collect();
    assert_eq!(rows[1], ["V100-SXM2-16GB".into(), at("00:01:00"), at("00:01:00"), at("00:11:00")]);
    assert_eq!(rows[2], ["T4".into(), at("00:02:00"), at("00:10:00"), at("00:11:00")]);
    let list = report(&["--figure", "list"]).stdout;
    assert!(list.contains("Mean completion time by kind of GPU that it ran on"), "{list}");
}

/// A project's style holds below its folder, and what the command says comes first.
#[test]
fn figures_follow_the_style_of_their_project() {
    let folder = results(&swept());
    let project = folder.path().join("deeper/still");
    std::fs::create_dir_all(&project).expect("made");
    std::fs::copy(folder.path().join("spec.ron"), project.join("spec.ron")).expect("copied");
    let report = |args: &[&str]| ask(folder.path(), &[&["report", "deeper/still/spec.ron", "-o"], args].concat());
    let style = |text: &str| std::fs::write(folder.path().join("style.ron"), text).expect("written");
    style("Style(width: \"3.3in\", size: 7, title: false, columns: [\"makespan\", \"jct-p99\"])");
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect("a file");
    for (width, expected) in [(&[][..], "237.6pt"), (&["--width", "5in"], "360pt")] {
        let ran = report(&[&["a.svg", "--figure", "ranks"], width].concat());
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let svg = text("a.svg");
        assert!(svg.contains(&format!("width=\"{expected}\"")) && !svg.contains(">Mean rank by"), "{}", &svg[..400]);
    }
    assert_eq!(report(&["t.tex"]).code, 0);
    assert!(text("t.tex").contains("makespan & jct p99 \\\\"), "{}", text("t.tex"));
    for (wrong, why) in [
        ("Style(widht: \"3in\")", "style.ron:1:7-1:12: Unexpected field named `widht`"),
        ("Style(width: \"3 miles\")", "style.ron: width: expected a number and a unit"),
        ("Style(size: 300)", "style.ron: size: expected from 4 to 72 points, found 300"),
    ] {
        style(wrong);
        let ran = report(&["a.svg"]);
        assert!(ran.code == 2 && ran.stderr.contains(why), "{}", ran.stderr);
    }
    std::fs::write(folder.path().join("other.ron"), "Style(height: \"2in\", width: \"4in\")").expect("written");
    assert_eq!(report(&["a.svg", "--style", "other.ron"]).code, 0);
    assert!(text("a.svg").contains("width=\"288pt\""));
}

#[test]
fn several_results_are_compared_pair_by_pair() {
    let folder = results(SPEC);
    let ran = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "again", "--format", "csv"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let rows: Vec<Vec<&str>> = ran.stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0], ["variant", "policy", "against", "metric", "change", "low", "high", "pairs", "holm"]);
    assert_eq!(rows.len(), 1 + 6);
    let of = |policy: &str, against: &str| {
        let row = rows.iter().find(|row| row[1] == policy && row[2] == against).expect("a pair");
        row[4].parse::<f64>().expect("a number")
    };
    // A policy and itself under another name, the two ways round of one pair, and what the comparison of two says.
    assert_eq!(of("again", "fifo"), 0.0);
    assert!(of("las", "fifo") * of("fifo", "las") < 0.0);
    let pair = ask(
        folder.path(),
        &["compare", "--spec", "spec.ron", "fifo", "las", "--format", "csv", "--metric", "jct-mean"],
    );
    let change = pair.stdout.lines().nth(1).and_then(|line| line.split(',').nth(6)).expect("a change");
    assert_eq!(change.parse::<f64>().expect("a number"), of("las", "fifo"));
    let table = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "again"]);
    assert!(table.stdout.contains("vs again") && table.stdout.contains("0.0 % ± 0.0"), "{}", table.stdout);
    // For a paper, a pull request and programs.
    for (file, has) in [
        ("p.tex", "fifo & "),
        ("p.md", "| again | "),
        ("p.csv", "variant,policy,against,metric"),
        ("p.jsonl", "\"against\":\"again\""),
    ] {
        let ran = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "again", "-o", file]);
        let text = std::fs::read_to_string(folder.path().join(file)).expect("a file");
        assert!(ran.code == 0 && ran.stdout.is_empty() && text.contains(has), "{file}: {text}");
    }
    assert_eq!(ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "-o", "two.tex"]).code, 0);
    let two = std::fs::read_to_string(folder.path().join("two.tex")).expect("a file");
    assert!(two.contains("\\caption{las against fifo") && two.contains("jct\\_mean\\_s & "), "{two}");
    let refused = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "-o", "two.txt"]);
    assert!(refused.code == 2 && refused.stderr.contains("expected .tex, .md, .csv or .jsonl"), "{}", refused.stderr);
    let brief = ask(folder.path(), &["compare", "--spec", "spec.ron", "fifo", "las", "--brief"]);
    assert!(brief.stdout.contains("jct_mean_s") && !brief.stdout.contains("jobs whose"), "{}", brief.stdout);
}

#[test]
fn policies_are_ranked_over_the_points_of_a_sweep() {
    let folder = results(&swept());
    let ranked = ask(folder.path(), &["rank", "spec.ron", "--format", "json", "--metric", "jct-mean,makespan_s"]);
    assert_eq!(ranked.code, 0, "{}", ranked.stderr);
    let rows = lines(&ranked);
    let of = |policy: &str| rows.iter().find(|row| row["policy"] == policy).expect("a row").clone();
    // The same policy under two labels shares its ranks; the three of each setting are 1, 2 and 3.
    assert_eq!(of("fifo")["rank_jct_mean_s"], of("again")["rank_jct_mean_s"]);
    let sum: f64 = rows.iter().map(|row| row["rank_jct_mean_s"].as_f64().expect("a rank")).sum();
    assert_eq!((rows.len(), sum), (3, 6.0));
    assert_eq!(of("las")["first"].as_u64().expect("a count") + of("fifo")["first"].as_u64().expect("a count"), 2);
    let shown = ask(folder.path(), &["rank", "spec.ron"]);
    assert!(shown.stdout.contains("3 policies, 2 settings: mean ranks less than 2.34 apart"), "{}", shown.stdout);
    assert_eq!(ask(folder.path(), &["rank", "spec.ron", "-o", "r.md"]).code, 0);
    let page = std::fs::read_to_string(folder.path().join("r.md")).expect("a page");
    assert!(page.contains("| policy | load 0.8 | load 1.3 |") && page.contains("| again | "), "{page}");
    // What has not run is last, and said.
    let more = ask(folder.path(), &["rank", "spec.ron", "--sweep", "workload.arrivals.load=0.8,1.4"]);
    assert!(more.code == 4 && more.stderr.contains("18 cells have no result"), "{}", more.stderr);
    for (metric, why) in [("jobs", "no value of it is better"), ("jct-mean-z", "did you mean `jct_mean_s`?")] {
        let refused = ask(folder.path(), &["rank", "spec.ron", "--metric", metric]);
        assert!(refused.code == 2 && refused.stderr.contains(why), "{}", refused.stderr);
    }
}
