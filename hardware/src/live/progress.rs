//! What jobs say of themselves: lines `STEP MONOTONIC_µs` on a pipe. Whatever else comes is counted and left alone.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, PipeReader, Read};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::{Duration, Instant};

/// Longer lines are no progress.
const LONGEST: usize = 256;
/// Readings kept, one every tenth of a second at most.
const KEPT: usize = 128;
const EVERY: Duration = Duration::from_millis(100);

/// What a job has said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// The latest step; none: it has not said any.
    pub step: Option<f64>,
    /// Lines that were progress.
    pub lines: u64,
    /// Lines that were not: no two numbers, or a step before the latest.
    pub odd: u64,
    /// The end of the pipe was reached.
    pub closed: bool,
    /// Time since the machine's start, and the step.
    recent: VecDeque<(Duration, f64)>,
}

impl Progress {
    /// Takes in a line.
    pub fn take(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let step =
            words.next().and_then(|word| word.parse::<f64>().ok()).filter(|step| step.is_finite() && *step >= 0.0);
        let at = words.next().and_then(|word| word.parse().ok()).map(Duration::from_micros);
        let at = at.filter(|at| *at < Instant::END.since_start());
        let (Some(step), Some(at)) = (step, at) else {
            self.odd += 1;
            return;
        };
        // One that was restored may begin a little before what it said last.
        if self.recent.back().is_some_and(|(then, before)| at < *then || step < *before) {
            self.odd += 1;
            return;
        }
        self.lines += 1;
        self.step = Some(step);
        let crowded = self.recent.len() > 1 && self.recent[self.recent.len() - 2].0 + EVERY > at;
        if crowded {
            self.recent.pop_back();
        }
        self.recent.push_back((at, step));
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
    }

    /// Steps a second over the last readings; none: too few of them.
    pub fn rate(&self) -> Option<f64> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let span = last.0 - first.0;
        (span >= EVERY).then(|| (last.1 - first.1) * 1e6 / span.as_micros_f64())
    }

    /// Steps a second between every two readings.
    pub fn rates(&self) -> Vec<f64> {
        let pairs = self.recent.iter().zip(self.recent.iter().skip(1));
        let wide = pairs.filter(|(a, b)| b.0 >= a.0 + EVERY / 2);
        wide.map(|(a, b)| (b.1 - a.1) * 1e6 / (b.0 - a.0).as_micros_f64()).collect()
    }

    /// What was said before a pause says nothing of the rate after it.
    pub fn forget_rate(&mut self) {
        self.recent.clear();
    }
}

/// The progress of one process, read by a thread of its own until the pipe's end.
#[derive(Clone, Debug, Default)]
pub struct Listener(Arc<Mutex<Progress>>);

impl Listener {
    /// Listens to a pipe.
    pub fn to(pipe: PipeReader) -> Listener {
        let listener = Listener::default();
        let own = listener.clone();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(pipe);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = lines.by_ref().take(LONGEST as u64).read_until(b'\n', &mut line);
                match read {
                    Ok(0) | Err(_) => break,
                    Ok(_) if line.ends_with(b"\n") => own.now().take(&String::from_utf8_lossy(&line)),
                    // A line without an end, or cut at the end of the pipe.
                    Ok(_) => own.now().odd += 1,
                }
            }
            own.now().closed = true;
        });
        listener
    }

    /// What is known by now.
    pub fn now(&self) -> MutexGuard<'_, Progress> {
        // Nothing that holds the lock panics half-way.
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn said(lines: &[&str]) -> Progress {
        let mut progress = Progress::default();
        lines.iter().for_each(|line| progress.take(line));
        progress
    }

    #[test]
    fn steps_and_rates_come_from_the_lines() {
        let progress = said(&["0 1000000", "5 1500000", "10 2000000"]);
        assert_eq!(progress.step, Some(10.0));
        assert_eq!(progress.rate(), Some(10.0));
        assert_eq!((progress.lines, progress.odd), (3, 0));
    }

    #[test]
    fn odd_lines_are_counted_and_change_nothing() {
        let odd =
            ["", "loss 0.3", "7", "7 x", "-1 5", "nan 5", "1e400 5", "3 2000001", "11 5", "12 18446744073709551615"];
        let mut lines = vec!["0 1000000", "10 2000000"];
        lines.extend(odd);
        let progress = said(&lines);
        assert_eq!((progress.step, progress.lines, progress.odd), (Some(10.0), 2, odd.len() as u64));
    }

    #[test]
    fn a_flood_is_kept_in_a_few_readings() {
        let mut progress = Progress::default();
        for step in 0..1_000_000u64 {
            progress.take(&format!("{step} {}", step * 10));
        }
        assert!(progress.recent.len() <= KEPT);
        assert_eq!(progress.step, Some(999_999.0));
        assert!((progress.rate().unwrap() - 100_000.0).abs() < 1.0);
    }

    #[test]
    fn an_endless_line_and_a_cut_one_are_odd() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let listener = Listener::to(reader);
        let text = format!("1 10\n{}\n2 20\n3 3", "x".repeat(10_000));
        writer.write_all(text.as_bytes()).unwrap();
        drop(writer);
        while !listener.now().closed {
            std::thread::yield_now();
        }
        let progress = listener.now().clone();
        assert_eq!(progress.step, Some(2.0));
        // 10,001 bytes come in pieces of 256, the last with the line's end.
        assert_eq!((progress.lines, progress.odd), (2, 41));
    }
}
