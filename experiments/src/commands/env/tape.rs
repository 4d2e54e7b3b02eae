//! What an agent answered in an episode, and playing it again.

use std::cell::RefCell;
use std::io::ErrorKind;
use std::path::Path;
use std::rc::Rc;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::{input, output};
use sandtable_plan::Cell;
use sandtable_run::code;
use sandtable_run::environment::{Episode, Player, Question, Shown, play};
use sandtable_run::execute::Compiled;
use sandtable_turns::Input;
use sandtable_turns::{Answer, MOST_SLOTS};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Environment;
use crate::ui;

/// Bytes of a tape.
const LONGEST: u64 = 1 << 30;

/// An episode.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tape {
    /// The version of the form.
    tape: u32,
    seed: u64,
    /// What the cluster, the jobs and the rules were.
    identity: String,
    inputs: Vec<Input>,
    slots: usize,
    placement: String,
    job_time_us: u64,
    summary: Value,
    /// A slot, the number of slots for waiting, or a list of scores.
    answers: Vec<Value>,
}

/// An answer as a tape has it.
pub(super) fn written(answer: &Answer, slots: usize) -> Value {
    match answer {
        Answer::Start(slot) => (*slot).into(),
        Answer::Wait => slots.into(),
        // JSON has no numbers for NaN and what is infinite: their names stand for them.
        Answer::Order(scores) => scores
            .iter()
            .map(|score| match score.is_finite() {
                true => Value::from(*score),
                false => Value::from(score.to_string()),
            })
            .collect(),
    }
}

fn read(answer: &Value, slots: usize) -> Option<Answer> {
    match answer {
        Value::Array(scores) => {
            let number = |score: &Value| score.as_f64().or_else(|| score.as_str()?.parse().ok());
            scores.iter().map(number).collect::<Option<Vec<f64>>>().map(Answer::Order)
        }
        _ => match answer.as_u64()? as usize {
            slot if slot < slots => Some(Answer::Start(slot)),
            slot => (slot == slots).then_some(Answer::Wait),
        },
    }
}

impl Tape {
    pub(super) fn of(
        cell: &Cell,
        shown: &Shown,
        placement: &str,
        answers: Vec<Value>,
        episode: &Episode,
    ) -> Result<Tape, Error> {
        Ok(Tape {
            tape: 1,
            seed: cell.seed,
            identity: cell.id.clone(),
            inputs: shown.inputs.clone(),
            slots: shown.slots,
            placement: placement.into(),
            job_time_us: u64::try_from(episode.job_time).unwrap_or(u64::MAX),
            summary: serde_json::to_value(&episode.summary).map_err(|error| Error::internal(error.to_string()))?,
            answers,
        })
    }

    /// Writes it into a folder of its own in this one, and the files of the episode beside it. Several environments may keep theirs in one.
    pub(super) fn write(&self, folder: &Path, number: &mut usize, episode: &Episode) -> Result<(), Error> {
        std::fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
        let folder = loop {
            let own = folder.join(format!("{:05}-seed-{}", *number, self.seed));
            *number += 1;
            match std::fs::create_dir(&own) {
                Ok(()) => break own,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::file("make", &own, &error)),
            }
        };
        for (name, bytes) in episode.files.iter().flatten() {
            output::write(&folder.join(name), bytes)?;
        }
        let text = serde_json::to_string(self).map_err(|error| Error::internal(error.to_string()))?;
        output::write(&folder.join("tape.json"), text + "\n")
    }
}

/// The agent of a tape.
struct Played {
    slots: usize,
    answers: std::vec::IntoIter<Value>,
    given: usize,
}

impl Player for Played {
    fn answer(&mut self, _: &Question<'_>) -> Option<Answer> {
        let answer = read(&self.answers.next()?, self.slots)?;
        self.given += 1;
        Some(answer)
    }
}

/// Plays a tape and compares.
pub(super) fn replay(environment: &mut Environment, path: &Path) -> Result<ExitCode, Error> {
    let bytes = input::read(path, LONGEST)?;
    let wrong = |why: &dyn std::fmt::Display| Error::usage(format!("{}: {why}", path.display()));
    let tape: Tape = serde_json::from_slice(&bytes).map_err(|error| wrong(&error))?;
    if tape.tape != 1 {
        return Err(wrong(&format!("expected a tape of version 1, found {}", tape.tape)));
    }
    if !(1..=MOST_SLOTS).contains(&tape.slots) {
        return Err(wrong(&format!("expected 1 to {MOST_SLOTS} slots, found {}", tape.slots)));
    }
    environment.placement.clone_from(&tape.placement);
    let cell = environment.cell(tape.seed)?;
    if cell.id != tape.identity {
        let error = wrong(&"it is of another cluster, other jobs or other rules than this spec has");
        return Err(error.hint("the --set, --at and --test of the episodes are needed here too"));
    }
    let shown = Shown { inputs: tape.inputs, slots: tape.slots };
    let compiled = Compiled::new(&code::settings(ui::note), std::iter::once(&cell))?;
    let (answers, all) = (tape.answers.into_iter(), tape.job_time_us);
    let player = Rc::new(RefCell::new(Played { slots: tape.slots, answers, given: 0 }));
    let episode = play(&cell, &compiled, &shown, player.clone(), false)?;
    let given = player.borrow().given;
    let alike = match &episode {
        Some(episode) => {
            let summary = serde_json::to_value(&episode.summary).map_err(|error| Error::internal(error.to_string()))?;
            player.borrow().answers.len() == 0 && episode.job_time == u128::from(all) && summary == tape.summary
        }
        None => false,
    };
    ui::result(&match alike {
        true => format!("{given} answers, seed {}: the results are those of the tape\n", tape.seed),
        false => format!("{given} answers, seed {}: the results are not those of the tape\n", tape.seed),
    });
    Ok(if alike { ExitCode::Done } else { ExitCode::CheckFailed })
}
