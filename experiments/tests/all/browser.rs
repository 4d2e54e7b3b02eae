//! The report in a browser: no error, no request that leaves the page, hover and sort and arrow keys work, on a phone too.
//!
//! Chromium is driven over its own pipe (`--remote-debugging-pipe`): JSON messages, a NUL after each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::help::sandtable;
use sandtable_needs::needs;

struct Browser {
    process: Child,
    commands: File,
    answers: File,
    session: Option<String>,
    next: u64,
    left: Vec<u8>,
    /// Events as they came.
    events: Vec<Value>,
}

/// The browser of this machine.
fn program() -> Option<&'static str> {
    let there =
        |name: &&str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there)
}

impl Browser {
    fn start(program: &str, folder: &Path) -> Browser {
        let (to, from) = (folder.join("to"), folder.join("from"));
        for fifo in [&to, &from] {
            assert!(Command::new("mkfifo").arg(fifo).status().expect("mkfifo").success());
        }
        let script = format!(
            "exec {program} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
             --disable-background-networking --user-data-dir={} --remote-debugging-pipe about:blank 3<{} 4>{}",
            folder.join("profile").display(),
            to.display(),
            from.display()
        );
        let process = Command::new("sh").args(["-c", &script]).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.expect("a browser");
        // The order in which the shell opens them: each end waits for the other.
        let commands = File::options().write(true).open(&to).expect("the pipe to it");
        let answers = File::open(&from).expect("the pipe from it");
        Browser { process, commands, answers, session: None, next: 0, left: Vec::new(), events: Vec::new() }
    }

    fn message(&mut self) -> Value {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == 0) {
                let text: Vec<u8> = self.left.drain(..=end).collect();
                return serde_json::from_slice(&text[..end]).expect("JSON");
            }
            let mut part = vec![0; 1 << 16];
            let count = self.answers.read(&mut part).expect("the browser answers");
            assert!(count > 0, "the browser has gone");
            self.left.extend(&part[..count]);
        }
    }

    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let text = command.to_string() + "\0";
        self.commands.write_all(text.as_bytes()).expect("the browser listens");
        loop {
            let message = self.message();
            if message["id"] == json!(self.next) {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn until(&mut self, event: &str) {
        while !self.events.iter().any(|message| message["method"] == event) {
            let message = self.message();
            self.events.push(message);
        }
    }

    /// The value of an expression in the page.
    fn value(&mut self, expression: &str) -> Value {
        let answer = self.call("Runtime.evaluate", json!({"expression": expression, "returnByValue": true}));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    fn point_at(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": x, "y": y}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const SPEC: &str = "Experiment(title: \"A page\", fleet: Model(nodes: 2, gpus: 4, kind: \"T4\"), \
    workload: Generate(jobs: 60, arrivals: Poisson(load: 1.2), durations: LogNormal(median: \"20min\", sigma: 1.0), gpus: {1: 3, 2: 1}), \
    policies: [Policy(name: \"fifo\"), Policy(name: \"srtf\"), Policy(name: \"sjf\")], predictors: {\"remaining\": Oracle}, seeds: Range(0, 6), \
    sweep: {\"workload.arrivals.load\": [0.6, 1.2]}, \
    claims: [Claim(says: \"srtf < fifo\", of: \"srtf\", against: \"fifo\", metric: \"jct_mean_s\", published: -0.1, holds: AtMost(0.0), at: Each)])";

/// A page of small results.
pub fn page(folder: &Path) {
    std::fs::write(folder.join("spec.ron"), SPEC).expect("written");
    let policies = crate::help::dist();
    for command in [&["run"][..], &["report", "-o", "page.html"]] {
        let (verb, rest) = command.split_first().expect("a verb");
        let mut args = vec![*verb, "spec.ron", "--store", "store", "--policies", &policies];
        args.extend(rest);
        let ran = sandtable(folder, &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
    }
}

/// Presses a key in what has the focus.
fn key(browser: &mut Browser, key: &str) {
    for kind in ["keyDown", "keyUp"] {
        browser.call("Input.dispatchKeyEvent", json!({"type": kind, "key": key}));
    }
}

/// Each policy against each, at the point that is chosen, as `compare` has them; and mean ranks, as `rank` has them.
fn pairs_and_ranks(browser: &mut Browser, folder: &Path) {
    let common = ["--store", "store", "--policies", &crate::help::dist()];
    let args = ["compare", "--spec", "spec.ron", "fifo", "srtf", "sjf", "--metric", "jct-mean", "--format", "json"];
    let compared = sandtable(folder, &[&args[..], &common].concat());
    let cell = |line: &str| {
        let of: Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| of[name].as_f64().expect("a number") * 100.0;
        let mark = if of["holm"] == true { " *" } else { "" };
        let half = (number("high") - number("low")) / 2.0;
        let text = format!("{:+.1} % ± {half:.1}{mark}", number("change"));
        (format!("{} {}", of["policy"].as_str().expect("a policy"), of["against"].as_str().expect("a policy")), text)
    };
    let expected: BTreeMap<String, String> =
        compared.stdout.lines().filter(|line| line.contains("load=1.2")).map(cell).collect();
    let table = "(() => { const names = ['fifo', 'srtf', 'sjf']; return Object.fromEntries([...document.querySelectorAll('#pairs tbody tr')].flatMap((row) => \
        [...row.cells].slice(1).map((cell, at) => [`${row.cells[0].textContent} ${names[at]}`, cell.textContent]).filter(([, text]) => text !== '–'))); })()";
    let shown: BTreeMap<String, String> = serde_json::from_value(browser.value(table)).expect("texts");
    assert_eq!((shown.len(), &shown), (6, &expected));
    assert!(shown.values().any(|text| text.ends_with('*')), "{shown:?}");
    let ranked =
        sandtable(folder, &[&["rank", "spec.ron", "--metric", "jct-mean", "--format", "csv"][..], &common].concat());
    let rank = |policy: &str| {
        let line = ranked.stdout.lines().find(|line| line.split(',').next() == Some(policy)).expect("a row");
        line.split(',').nth(1).and_then(|text| text.parse::<f64>().ok()).expect("a rank")
    };
    let values = "page.metrics.find((one) => one.name === 'jct_mean_s').ranks";
    let ranks: Vec<f64> = serde_json::from_value(browser.value(values)).expect("ranks");
    assert_eq!(ranks, ["fifo", "srtf", "sjf"].map(rank));
    let title = browser.value("document.getElementById('ranks-h').textContent");
    assert_eq!(title, "Mean rank by JCT mean over 2 points");
}

/// Figures say their values to the keyboard, show and hide policies, compare with a baseline, and are tables too.
fn figures_answer(browser: &mut Browser, folder: &Path) {
    let count = "document.querySelectorAll('figure:not([hidden]) .u-over').length";
    assert!(browser.value(count).as_u64().is_some_and(|count| count >= 7), "{}", browser.value(count));
    // The first distribution that is seen.
    let jct = "[...document.querySelectorAll('figure[id^=jct]')].find((one) => one.offsetHeight > 0 && one.id.match(/^jct(-2)?$/))";
    browser.value(&format!("{jct}.querySelector('.plot').focus()"));
    let values = format!("[...{jct}.querySelectorAll('.legend .value')].map((one) => one.textContent)");
    (0..30).for_each(|_| key(browser, "ArrowRight"));
    let said: Vec<String> = serde_json::from_value(browser.value(&values)).expect("texts");
    assert!(said.len() == 3 && said.iter().all(|text| text.parse::<f64>().is_ok_and(|part| part > 0.0)), "{said:?}");
    let place = browser.value(&format!("{jct}.querySelector('.where').textContent"));
    assert!(place.as_str().is_some_and(|text| text.ends_with("min") || text.ends_with(" h")), "{place}");
    // A policy that is switched off is so everywhere, and the focus stays.
    browser
        .value(&format!("{{ const button = {jct}.querySelector('.legend button'); button.focus(); button.click(); }}"));
    let off = "[...document.querySelectorAll('figure:not([hidden]) .legend')].map((one) => one.firstChild.getAttribute('aria-pressed'))";
    let off: Vec<String> = serde_json::from_value(browser.value(off)).expect("states");
    assert!(off.len() >= 7 && off.iter().all(|state| state == "false"), "{off:?}");
    assert_eq!(browser.value("document.activeElement.textContent"), "fifo");
    browser.value("document.activeElement.click()");
    // The tail of the distribution, and its data as a table.
    browser.value(&format!(
        "[...{jct}.querySelectorAll('.tools button')].find((one) => one.textContent === 'tail').click()"
    ));
    let rows = format!(
        "(() => {{ const data = {jct}.querySelector('.data'); data.open = true; data.dispatchEvent(new Event('toggle')); return data.querySelectorAll('tbody tr').length; }})()"
    );
    assert!(browser.value(&rows).as_u64().is_some_and(|rows| rows >= 20));
    pairs_and_ranks(browser, folder);
    // Beside a baseline metrics are changes of paired seeds, and the table has ratios.
    browser.value("{ const base = document.getElementById('baseline'); base.value = '1'; base.dispatchEvent(new Event('change')); }");
    let title = browser.value("document.getElementById('strips-h').textContent");
    assert_eq!(title, "JCT mean: change against fifo, paired by seed");
    // The number that `compare` prints, at the point that is chosen.
    let args = ["compare", "--spec", "spec.ron", "fifo", "srtf", "--metric", "jct-mean", "--format", "csv"];
    let compared = sandtable(folder, &[&args[..], &["--store", "store", "--policies", &crate::help::dist()]].concat());
    let row = compared.stdout.lines().find(|line| line.contains("load=1.2")).expect("a row of the point");
    let change: f64 = row.split(',').nth(6).and_then(|text| text.parse().ok()).expect("a number");
    let shown = "(() => { const data = document.querySelector('#strips .data'); data.open = true; data.dispatchEvent(new Event('toggle')); \
        return [...data.querySelectorAll('tbody tr')].map((row) => row.cells[1].textContent); })()";
    let shown: Vec<String> = serde_json::from_value(browser.value(shown)).expect("texts");
    assert!(shown[1].starts_with(&format!("{:+.1} %", change * 100.0)), "{shown:?} {change}");
    let ratios = "[...document.querySelectorAll('#metrics tbody tr')].map((row) => [...row.cells].some((cell) => cell.textContent.endsWith('×')))";
    assert_eq!(browser.value(ratios), json!(vec![true; 6]));
    // Any metric, along the sweep.
    browser.value("{ const metric = document.getElementById('metric'); metric.value = [...metric.options].find((one) => one.textContent === 'makespan_s').value; metric.dispatchEvent(new Event('change')); }");
    assert_eq!(
        browser.value("document.getElementById('along-h').textContent"),
        "makespan by workload.arrivals.load: change against fifo, paired by seed"
    );
    browser.value("{ const base = document.getElementById('baseline'); base.value = '0'; base.dispatchEvent(new Event('change')); }");
}

#[needs("tool:chromium|chromium-browser|google-chrome")]
#[test]
fn the_report_works_in_a_browser() {
    let program = program().expect("a browser");
    let folder = tempfile::tempdir().expect("a folder");
    page(folder.path());
    let mut browser = Browser::start(program, folder.path());
    let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
    let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
    browser.session = attached["sessionId"].as_str().map(str::to_string);
    for domain in ["Runtime", "Log", "Network", "Page"] {
        browser.call(&format!("{domain}.enable"), json!({}));
    }
    let screen = |width: u32| json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600});
    browser.call("Emulation.setDeviceMetricsOverride", screen(1200));
    let page = format!("file://{}", folder.path().join("page.html").display());
    browser.call("Page.navigate", json!({"url": page}));
    browser.until("Page.loadEventFired");

    // Sorting: by the number behind the text, up and then down.
    let column =
        "[...document.querySelectorAll('table.sortable tbody tr')].map((row) => Number(row.cells[3].dataset.v))";
    let press = "document.querySelectorAll('table.sortable th button')[3].click()";
    browser.value(press);
    let up: Vec<f64> = serde_json::from_value(browser.value(column)).expect("numbers");
    assert_eq!(up.len(), 6);
    assert!(up.is_sorted(), "{up:?}");
    browser.value(press);
    let down: Vec<f64> = serde_json::from_value(browser.value(column)).expect("numbers");
    assert!(down.iter().rev().is_sorted() && down != up, "{down:?}");
    assert_eq!(
        browser.value("document.querySelectorAll('table.sortable th')[3].getAttribute('aria-sort')"),
        "descending"
    );

    // Of a sweep the figures of one point are seen, and the one that is chosen.
    let seen = "[...document.querySelectorAll('figure[data-point]')].filter((figure) => figure.offsetHeight > 0).map((figure) => figure.dataset.point)";
    let points = |browser: &mut Browser| serde_json::from_value::<Vec<String>>(browser.value(seen)).expect("points");
    let first = points(&mut browser);
    assert!(!first.is_empty() && first.iter().all(|point| point == "0"), "{first:?}");
    browser.value("{ const point = document.getElementById('point-0'); point.value = '1'; point.dispatchEvent(new Event('change')); }");
    let second = points(&mut browser);
    assert!(!second.is_empty() && second.iter().all(|point| point == "1"), "{second:?}");

    figures_answer(&mut browser, folder.path());

    // Pointing at a bar says what it is; leaving it says nothing.
    let tip = "(() => { const tip = document.getElementById('tip'); return tip.hidden ? null : tip.textContent; })()";
    assert_eq!(browser.value(tip), Value::Null);
    let middle = "(() => { const bar = [...document.querySelectorAll('.lanes .bar')].find((bar) => bar.getBoundingClientRect().width > 12); \
        bar.scrollIntoView({block: 'center'}); const box = bar.getBoundingClientRect(); return [box.left + box.width / 2, box.top + box.height / 2]; })()";
    let at: [f64; 2] = serde_json::from_value(browser.value(middle)).expect("a place");
    browser.point_at(at[0], at[1]);
    let said = browser.value(tip);
    assert!(said.as_str().is_some_and(|text| text.contains("submitted at") && text.contains("GPU")), "{said}");
    browser.point_at(5.0, 5.0);
    assert_eq!(browser.value(tip), Value::Null);

    // The keyboard reaches the drawing and goes from job to job.
    browser.value("document.querySelector('svg.lanes').focus()");
    key(&mut browser, "ArrowRight");
    let first = browser.value(tip);
    key(&mut browser, "ArrowRight");
    let second = browser.value(tip);
    key(&mut browser, "ArrowDown");
    let third = browser.value(tip);
    assert!(first.is_string() && second.is_string() && third.is_string() && first != second && second != third);
    key(&mut browser, "Escape");
    assert_eq!(browser.value(tip), Value::Null);

    // On a phone nothing is wider than the screen; in the dark it is dark.
    browser.call("Emulation.setDeviceMetricsOverride", screen(400));
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 400);
    browser.call("Emulation.setDeviceMetricsOverride", screen(1200));
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = browser.value(ground);
    let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
    browser.call("Emulation.setEmulatedMedia", dark);
    assert_eq!((light, browser.value(ground)), (json!("rgb(255, 255, 255)"), json!("rgb(20, 23, 26)")));

    let mut wrong = Vec::new();
    for event in &browser.events {
        let outside = |url: &Value| url.as_str().is_some_and(|url| !url.starts_with("data:") && url != page);
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.exceptionThrown" | "Log.entryAdded" | "Runtime.consoleAPICalled" => wrong.push(event.to_string()),
            "Network.requestWillBeSent" if outside(&event["params"]["request"]["url"]) => wrong.push(event.to_string()),
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
