//! A trace as a plan keeps it while its cells run.

use std::path::PathBuf;
use std::sync::Arc;

use compact_str::CompactString;
use sandtable_core::shared::Shared;
use sandtable_hardware::{Duration, Instant};
use serde::{Deserialize, Serialize};

use super::account::Account;
use super::{Asked, Recorded, Row, Trace};

/// A trace whose rows are packed: some 20 bytes for a row of a name, a submission and a run time, where a [`Row`] has 88.
pub struct Packed {
    /// What became of the file's rows.
    pub account: Account,
    /// Of a trace that was imported: what became of the rows of the file before.
    pub imported: Option<Box<(PathBuf, Account)>>,
    /// What rows ask for, each once.
    asked: Vec<Arc<Asked>>,
    bytes: Vec<u8>,
    len: usize,
    declares: bool,
    logs_starts: bool,
}

/// What is a row's own, after the row before it.
#[derive(Serialize, Deserialize)]
struct Own<'a> {
    name: &'a str,
    /// Microseconds since the submission of the row before.
    after: u64,
    duration: Duration,
    declared: Option<Duration>,
    deadline: Option<Instant>,
    recorded: Option<Box<Recorded>>,
    /// Its place among [`Packed::asked`].
    asked: usize,
}

impl Packed {
    /// Packs the rows of a trace, which are sorted by submission.
    pub fn of(trace: Trace) -> Packed {
        let Trace { rows, account, imported } = trace;
        let mut packed = Packed {
            account,
            imported,
            asked: Vec::new(),
            bytes: Vec::new(),
            len: rows.len(),
            declares: rows.iter().any(|row| row.declared.is_some()),
            logs_starts: rows.iter().any(|row| row.recorded.as_ref().is_some_and(|of| of.start.is_some())),
        };
        let (mut shared, mut before) = (Shared::default(), Instant::START);
        for row in rows {
            let Row { name, submit, duration, declared, deadline, recorded, asked } = row;
            let (asked, _) = shared.of(asked);
            let after = submit.as_micros().wrapping_sub(before.as_micros());
            let own = Own { name: &name, after, duration, declared, deadline, recorded, asked };
            packed.bytes = postcard::to_extend(&own, packed.bytes).expect("a row has nothing that can't be packed");
            before = submit;
        }
        packed.asked = shared.into_values();
        packed.bytes.shrink_to_fit();
        packed
    }

    /// The rows, by submission.
    ///
    /// ```
    /// use sandtable_hardware::{Instant, SECOND};
    /// use sandtable_inputs::trace::{Packed, Row, Trace};
    ///
    /// let rows = vec![Row::new("a".into(), Instant::START, 2, 90 * SECOND)];
    /// let packed = Packed::of(Trace { rows: rows.clone(), ..Trace::default() });
    /// assert_eq!(packed.rows().collect::<Vec<_>>(), rows);
    /// ```
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let (mut rest, mut before) = (self.bytes.as_slice(), Instant::START);
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (own, after): (Own<'_>, _) = postcard::take_from_bytes(rest).expect("what was packed");
            rest = after;
            before = Instant::from_micros(before.as_micros().wrapping_add(own.after));
            let Own { name, duration, declared, deadline, recorded, asked, .. } = own;
            let (name, asked) = (CompactString::new(name), self.asked[asked].clone());
            Some(Row { name, submit: before, duration, declared, deadline, recorded, asked })
        })
    }

    /// The trace, with its rows unpacked.
    pub fn trace(&self) -> Trace {
        let mut rows = Vec::with_capacity(self.len);
        rows.extend(self.rows());
        Trace { rows, account: self.account.clone(), imported: self.imported.clone() }
    }

    /// What its rows ask for, each once.
    pub fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().map(|asked| &**asked)
    }

    /// How many rows it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether any job's user declared how long it will run.
    pub fn declares(&self) -> bool {
        self.declares
    }

    /// Whether a log recorded when any of its jobs started.
    pub fn logs_starts(&self) -> bool {
        self.logs_starts
    }

    /// Time from 1970 to second 0, where it or the file that it was imported from has dates.
    pub fn origin(&self) -> Option<Duration> {
        self.account.origin.or_else(|| self.imported.as_deref()?.1.origin)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        fn row()(
            name in ".{0,40}",
            times in any::<(u64, u64, Option<u64>, Option<u64>)>(),
            asked in (0u32..4, -2i32..2, prop::option::of("[ab]")),
            log in prop::option::of((any::<(Option<u64>, Option<u64>, Option<u32>)>(), prop::option::of(".{0,9}"))),
        ) -> Row {
            let (submit, duration, declared, deadline) = times;
            let (gpus, priority, queue) = asked;
            let recorded = log.map(|((start, end, priority), partition)| {
                let (start, end) = (start.map(Instant::from_micros), end.map(Instant::from_micros));
                Box::new(Recorded { start, end, priority, partition, ..Recorded::default() })
            });
            Row {
                name: name.into(),
                submit: Instant::from_micros(submit),
                duration: Duration::from_micros(duration),
                declared: declared.map(Duration::from_micros),
                deadline: deadline.map(Instant::from_micros),
                recorded,
                asked: Arc::new(Asked { priority, queue, ..Asked::gpus(gpus) }),
            }
        }
    }

    proptest! {
        #[test]
        fn a_packed_trace_has_the_rows_that_were_packed(rows in prop::collection::vec(row(), 0..20)) {
            let packed = Packed::of(Trace { rows: rows.clone(), ..Trace::default() });
            prop_assert_eq!(packed.len(), rows.len());
            prop_assert_eq!(packed.declares(), rows.iter().any(|row| row.declared.is_some()));
            prop_assert!(rows.iter().all(|row| packed.asked().any(|asked| *asked == *row.asked)));
            prop_assert_eq!(packed.trace().rows, rows);
        }
    }
}
