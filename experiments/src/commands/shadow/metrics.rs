//! Metrics of a watch, as Prometheus reads them: its text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use sandtable_core::error::{Error, ExitCode};
use sandtable_hardware::Duration;
use sandtable_hardware::live::{Clock, wait};
use serde_json::Value;

use super::agreement::Sum;
use super::intervals::Judged;

#[derive(Default)]
struct Counts {
    polls: u64,
    failures: u64,
    /// When the cluster last told of another instant.
    answered: Option<Duration>,
    read_s: f64,
    /// Jobs of the last document, by state.
    jobs: BTreeMap<String, u64>,
    /// Records of the last document that could not be understood.
    refused: u64,
    not_judged: u64,
    sums: Vec<Sum>,
}

/// What is counted, shared with those that serve it.
#[derive(Clone)]
pub(super) struct Metrics {
    counts: Arc<Mutex<Counts>>,
    clock: Arc<Clock>,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics { counts: Arc::default(), clock: Arc::new(Clock::start()) }
    }
}

impl Metrics {
    fn with<T>(&self, use_it: impl FnOnce(&mut Counts) -> T) -> T {
        use_it(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A poll was answered, after so many seconds, of an instant that is new or not.
    pub(super) fn polled(&self, read_s: f64, document: &Value, new: bool) {
        let now = self.clock.now().since_start();
        let refused = document["refused"].as_array().map_or(0, Vec::len) as u64;
        let mut jobs = BTreeMap::new();
        for job in document["jobs"].as_array().into_iter().flatten() {
            *jobs.entry(job["state"].as_str().unwrap_or_default().to_string()).or_default() += 1;
        }
        self.with(|counts| {
            counts.polls += 1;
            (counts.read_s, counts.jobs, counts.refused) = (read_s, jobs, refused);
            counts.answered = if new { Some(now) } else { counts.answered };
        });
    }

    /// A poll was not answered.
    pub(super) fn failed(&self) {
        self.with(|counts| counts.failures += 1);
    }

    pub(super) fn judged(&self, judged: &Judged) {
        self.with(|counts| {
            counts.not_judged += u64::from(judged.not_judged.is_some());
            counts.sums.resize_with(counts.sums.len().max(judged.decided.len()), Sum::default);
            counts.sums.iter_mut().zip(&judged.decided).for_each(|(sum, of)| sum.add(judged, of));
        });
    }

    /// Each policy so far.
    pub(super) fn sums(&self) -> Vec<Sum> {
        self.with(|counts| counts.sums.clone())
    }

    /// All of it as text.
    fn text(&self) -> String {
        let now = self.clock.now().since_start();
        self.with(|counts| {
            let mut out = String::new();
            let mut one = |name: &str, kind: &str, help: &str, samples: &[(String, f64)]| {
                let _ = writeln!(out, "# HELP sandtable_shadow_{name} {help}\n# TYPE sandtable_shadow_{name} {kind}");
                for (labels, value) in samples {
                    let _ = writeln!(out, "sandtable_shadow_{name}{labels} {value}");
                }
            };
            let plain = |value: f64| [(String::new(), value)];
            let stale = counts.answered.map_or(f64::NAN, |at| now.saturating_sub(at).as_secs_f64());
            one("polls_total", "counter", "Polls that the cluster answered.", &plain(counts.polls as f64));
            one("poll_failures_total", "counter", "Polls that it did not answer.", &plain(counts.failures as f64));
            one("stale_seconds", "gauge", "Time since the cluster last told of another instant.", &plain(stale));
            one("read_seconds", "gauge", "Time that the last poll took.", &plain(counts.read_s));
            let jobs: Vec<_> = counts.jobs.iter().map(|(state, n)| (label("state", state), *n as f64)).collect();
            one("jobs", "gauge", "Jobs of the last poll.", &jobs);
            one(
                "refused",
                "gauge",
                "Records of the last poll that could not be understood.",
                &plain(counts.refused as f64),
            );
            let lost = counts.not_judged as f64;
            one("intervals_not_compared_total", "counter", "Intervals that no policy could be asked of.", &plain(lost));
            let of = |value: fn(&Sum) -> f64| -> Vec<(String, f64)> {
                counts.sums.iter().map(|sum| (label("policy", &sum.policy), value(sum))).collect()
            };
            one("intervals_total", "counter", "Intervals that a policy was asked of.", &of(|sum| sum.intervals as f64));
            let alike = of(|sum| sum.alike as f64);
            one("intervals_alike_total", "counter", "Of these, ones with the cluster's starts and no others.", &alike);
            let starts = of(|sum| sum.with_starts.0 as f64);
            one("intervals_with_starts_total", "counter", "Intervals in which either started something.", &starts);
            let alike = of(|sum| sum.with_starts.1 as f64);
            one("intervals_with_starts_alike_total", "counter", "Of these, ones alike.", &alike);
            let both = of(|sum| sum.both as f64);
            one("starts_in_common_total", "counter", "Starts of both.", &both);
            let nodes = of(|sum| sum.same_nodes.0 as f64);
            one("starts_on_same_nodes_total", "counter", "Of these, ones on the same nodes.", &nodes);
            let ratio = of(|sum| sum.same_starts().unwrap_or(f64::NAN));
            one("agreement_ratio", "gauge", "Starts in common over starts of either, so far.", &ratio);
            let alone = of(|sum| sum.would_have_started as f64);
            one("policy_alone_total", "counter", "Starts of a policy that the cluster did not make.", &alone);
            let next = of(|sum| sum.sooner as f64);
            one("policy_alone_came_next_total", "counter", "Of these, ones that it made in the next interval.", &next);
            let alone = of(|sum| sum.would_have_waited as f64);
            one("cluster_alone_total", "counter", "Starts of the cluster that a policy would not have made.", &alone);
            let preempted = of(|sum| sum.would_have_preempted as f64);
            one("policy_preempted_total", "counter", "Jobs that a policy would have stopped.", &preempted);
            let left = of(|sum| sum.not_modelled as f64);
            one("not_modelled_total", "counter", "Starts of the cluster of jobs that the model has not.", &left);
            one("policy_faults_total", "counter", "Intervals in which a policy failed.", &of(|sum| sum.faults as f64));
            out
        })
    }
}

fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

/// Metrics that are served until this process ends.
pub(super) struct Served {
    /// Where.
    pub(super) address: SocketAddr,
}

/// Longest that a reader may take in all: the next one waits for it.
const READER: Duration = Duration::from_secs(2);
/// Time until readers are taken again where that failed.
const AGAIN: Duration = Duration::from_millis(100);

impl Served {
    /// Serves them, one reader after the other: whatever path is asked for has the same answer.
    pub(super) fn on(address: SocketAddr, metrics: Metrics) -> Result<Served, Error> {
        let wrong = |error: std::io::Error| Error {
            exit: ExitCode::Usage,
            ..Error::usage(format!("--listen: {address}: {error}"))
        };
        let listener = TcpListener::bind(address).map_err(wrong)?;
        let address = listener.local_addr().map_err(wrong)?;
        let serve = move || {
            for reader in listener.incoming() {
                // A reader that went away loses its answer; where none can be taken there is nothing to do but to try again.
                match reader {
                    Ok(reader) => drop(answer(reader, &metrics)),
                    Err(_) => wait(AGAIN),
                }
            }
        };
        let thread = std::thread::Builder::new().name("metrics".into()).spawn(serve);
        thread.map_err(wrong)?;
        Ok(Served { address })
    }
}

fn answer(mut reader: TcpStream, metrics: &Metrics) -> std::io::Result<()> {
    let clock = Clock::start();
    let left = || match READER.saturating_sub(clock.now().since_start()) {
        Duration::ZERO => Err(std::io::Error::from(std::io::ErrorKind::TimedOut)),
        left => Ok(Some(left.into())),
    };
    reader.set_write_timeout(left()?)?;
    // The question does not matter, but is read: a connection that is closed with something unread is reset.
    let (mut question, mut chunk) = (Vec::new(), [0; 1024]);
    while !question.ends_with(b"\r\n\r\n") && question.len() < 16 << 10 {
        reader.set_read_timeout(left()?)?;
        match reader.read(&mut chunk)? {
            0 => break,
            read => question.extend_from_slice(&chunk[..read]),
        }
    }
    let body = metrics.text();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    reader.write_all(head.as_bytes())?;
    reader.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_every_metric_with_its_kind() {
        let metrics = Metrics::default();
        let jobs = serde_json::json!([{"state": "waiting"}, {"state": "waiting"}, {"state": "running"}]);
        metrics.polled(0.25, &serde_json::json!({"jobs": jobs, "refused": [{}]}), true);
        metrics.failed();
        let sum = Sum { policy: "a \"b\"".into(), intervals: 4, both: 1, either: 2, ..Sum::default() };
        metrics.with(|counts| counts.sums.push(sum));
        let served = Served::on(([127, 0, 0, 1], 0).into(), metrics).expect("a free port");
        let mut reader = TcpStream::connect(served.address).expect("it listens");
        reader.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").expect("asked");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("answered");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        for line in [
            "sandtable_shadow_polls_total 1",
            "sandtable_shadow_poll_failures_total 1",
            "sandtable_shadow_read_seconds 0.25",
            "sandtable_shadow_refused 1",
            "sandtable_shadow_jobs{state=\"waiting\"} 2",
            "sandtable_shadow_agreement_ratio{policy=\"a \\\"b\\\"\"} 0.5",
        ] {
            assert!(body.lines().any(|found| found == line), "{line} in {body}");
        }
        // Each sample follows its help and kind.
        let mut known = std::collections::BTreeSet::new();
        for line in body.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(of) => _ = known.insert(of.split(' ').next().expect("a name").to_string()),
                None if line.starts_with('#') => {}
                None => {
                    let name = line.split(['{', ' ']).next().expect("a name");
                    assert!(known.contains(name), "{line}");
                    let value = line.rsplit(' ').next().expect("a value");
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                }
            }
        }
    }
}
