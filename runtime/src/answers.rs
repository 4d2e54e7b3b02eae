//! What the imports answered during a call: recorded for a capsule, or given again by one.

use std::collections::VecDeque;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Answers of the imports during one call, each as JSON.
pub type ImportAnswers = Vec<String>;

/// What an instance does with the answers of its imports.
#[derive(Debug)]
pub(crate) enum ImportLog {
    /// Nothing.
    Off,
    /// Keeps them while there is room.
    Record {
        /// Those of this call.
        answers: ImportAnswers,
        /// Bytes that are left.
        room: usize,
    },
    /// There was no room for all.
    Full,
    /// Gives these instead of asking.
    Replay(VecDeque<String>),
}

impl ImportLog {
    pub(crate) fn next_answer<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        match self {
            ImportLog::Off | ImportLog::Record { .. } | ImportLog::Full => Ok(None),
            ImportLog::Replay(answers) => match answers.pop_front() {
                Some(text) => serde_json::from_str(&text).map(Some).map_err(|error| format!("the recording: {error}")),
                None => Err("the replay asks more than the recording answered".into()),
            },
        }
    }

    pub(crate) fn record_answer<T: Serialize>(&mut self, answer: &T) {
        if let ImportLog::Record { answers, room } = self
            && let Ok(text) = serde_json::to_string(answer)
        {
            match room.checked_sub(weight(&text)) {
                Some(left) => {
                    *room = left;
                    answers.push(text);
                }
                None => *self = ImportLog::Full,
            }
        }
    }

    /// What was recorded; none: there was no room for it.
    pub(crate) fn recorded(self) -> Option<ImportAnswers> {
        match self {
            ImportLog::Record { answers, .. } => Some(answers),
            ImportLog::Full => None,
            ImportLog::Off | ImportLog::Replay(_) => Some(Vec::new()),
        }
    }
}

/// Bytes that a text takes.
pub(crate) fn weight(text: &str) -> usize {
    size_of::<String>() + text.len()
}
