//! Messages over standard input and output, and the agent at their other end.

use std::io::{BufReader, Read as _, Stdin, Write as _};

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_run::environment::{Player, Question};
use sandtable_turns::{Answer, Observation};
use serde::Deserialize;
use serde_json::Value;

/// Bytes of a message of the agent.
const LONGEST: u32 = 1 << 20;
/// Seeds of specs are below it.
const MOST_SEED: u64 = 1 << 53;
/// Microseconds of an hour.
const HOUR: f64 = 3.6e9;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    reset: u64,
}

/// What the agent said.
pub(super) enum Said {
    Reset(u64),
    Answer(Answer),
    /// Nothing more is asked.
    End,
    /// What can't be used, and why.
    Other(String),
}

/// The agent.
pub(super) struct Pipe {
    from: BufReader<Stdin>,
    slots: usize,
    /// An episode that it asked for in the middle of another.
    pending: Option<u64>,
    /// Why nothing more is read.
    broken: Option<Error>,
    closed: bool,
    /// Time of jobs up to the latest question, µs, of which it was told.
    told: u128,
    /// Whether it has been asked in this episode.
    asked: bool,
    answers: Vec<Value>,
    out: Vec<u8>,
}

impl Pipe {
    /// An agent whose slots are not yet known.
    pub(super) fn new() -> Pipe {
        Pipe {
            from: BufReader::with_capacity(1 << 16, std::io::stdin()),
            slots: 0,
            pending: None,
            broken: None,
            closed: false,
            told: 0,
            asked: false,
            answers: Vec::new(),
            out: Vec::new(),
        }
    }

    /// It is shown so many jobs.
    pub(super) fn set_slots(&mut self, slots: usize) {
        self.slots = slots;
    }

    /// Sends JSON.
    pub(super) fn say(&mut self, message: &Value) {
        let text = message.to_string();
        self.out.clear();
        self.out.extend((text.len() as u32).to_le_bytes());
        self.out.extend(text.as_bytes());
        self.send();
    }

    fn send(&mut self) {
        let mut to = std::io::stdout().lock();
        // An agent that reads no more sends no more either.
        self.closed |= to.write_all(&self.out).and_then(|()| to.flush()).is_err();
    }

    fn question(&mut self, reward: f64, seen: &Observation) {
        let length = 1 + 8 + self.slots + 1 + 4 * seen.values.len();
        self.out.clear();
        self.out.extend((length as u32).to_le_bytes());
        self.out.push(1);
        self.out.extend(reward.to_le_bytes());
        self.out.extend((0..self.slots).map(|slot| u8::from(seen.fits.get(slot) == Some(&true))));
        self.out.push(u8::from(seen.may_wait));
        self.out.extend(seen.values.iter().flat_map(|value| value.to_le_bytes()));
        self.send();
    }

    /// The text of the spec, where it is the first message.
    pub(super) fn spec(&mut self) -> Result<String, Error> {
        let bytes = self.message(input::SPEC as u32)?.unwrap_or_default();
        String::from_utf8(bytes).map_err(|error| Error::usage(format!("-: the spec is no text: {error}")))
    }

    /// The next message; none: there is no further one.
    fn read(&mut self) -> Result<Option<Said>, Error> {
        if self.closed {
            return Ok(None);
        }
        Ok(self.message(LONGEST)?.map(|bytes| self.understood(&bytes)))
    }

    fn message(&mut self, most: u32) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error: &std::io::Error| Error::usage(format!("standard input: {error}"));
        let mut length = [0; 4];
        match self.from.read(&mut length[..1]).map_err(|error| failed(&error))? {
            0 => return Ok(None),
            _ => self.from.read_exact(&mut length[1..]).map_err(|error| failed(&error))?,
        }
        let length = u32::from_le_bytes(length);
        if length > most {
            let why = format!("standard input: expected a message of at most {most} bytes, found one of {length}");
            return Err(Error::usage(why).hint("its length comes first, as 4 bytes, the least first"));
        }
        let mut bytes = vec![0; length as usize];
        self.from.read_exact(&mut bytes).map_err(|error| failed(&error))?;
        Ok(Some(bytes))
    }

    fn understood(&self, bytes: &[u8]) -> Said {
        match bytes {
            [0] => Said::End,
            [b'{', ..] => match serde_json::from_slice::<Request>(bytes) {
                Ok(Request { reset }) if reset < MOST_SEED => Said::Reset(reset),
                Ok(Request { reset }) => Said::Other(format!("expected a seed below 2^53, found {reset}")),
                Err(error) => Said::Other(format!("expected {{\"reset\": SEED}}: {error}")),
            },
            [1, a, b, c, d] => match i32::from_le_bytes([*a, *b, *c, *d]) {
                slot if slot >= 0 && (slot as usize) < self.slots => Said::Answer(Answer::Start(slot as usize)),
                slot if slot as i64 == self.slots as i64 => Said::Answer(Answer::Wait),
                slot => Said::Other(format!("expected a slot from 0 to {}, found {slot}", self.slots)),
            },
            [2, scores @ ..] if scores.len() == 8 * self.slots => {
                let scores = scores.as_chunks::<8>().0.iter();
                Said::Answer(Answer::Order(scores.map(|score| f64::from_le_bytes(*score)).collect()))
            }
            [2, scores @ ..] => {
                Said::Other(format!("expected {} scores of 8 bytes, found {} bytes", self.slots, scores.len()))
            }
            _ => Said::Other("expected JSON, or a message that begins with a byte 0, 1 or 2".into()),
        }
    }

    /// The seed of the next episode; none: there is no further one.
    pub(super) fn next_reset(&mut self) -> Result<Option<u64>, Error> {
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if let Some(seed) = self.pending.take() {
            return Ok(Some(seed));
        }
        loop {
            match self.read()? {
                None | Some(Said::End) => return Ok(None),
                Some(Said::Reset(seed)) => return Ok(Some(seed)),
                Some(Said::Answer(_)) => self.say(&serde_json::json!({"error": "no episode: {\"reset\": SEED}"})),
                Some(Said::Other(why)) => self.say(&serde_json::json!({ "error": why })),
            }
        }
    }

    /// An episode begins.
    pub(super) fn begin(&mut self) {
        (self.told, self.asked) = (0, false);
        self.answers.clear();
    }

    /// An episode has ended: the reward since its last question, and its answers.
    pub(super) fn ended(&mut self, job_time: u128) -> (f64, Vec<Value>) {
        (-(job_time.saturating_sub(self.told) as f64) / HOUR, std::mem::take(&mut self.answers))
    }
}

impl Player for Pipe {
    fn answer(&mut self, question: &Question<'_>) -> Option<Answer> {
        // With the first question no reward is read: the one after it has the time before it too.
        let reward = if self.asked { -((question.job_time - self.told) as f64) / HOUR } else { 0.0 };
        if self.asked {
            self.told = question.job_time;
        }
        self.asked = true;
        self.question(reward, question.seen);
        loop {
            match self.read() {
                Ok(Some(Said::Answer(answer))) => {
                    self.answers.push(super::tape::written(&answer, self.slots));
                    return Some(answer);
                }
                Ok(Some(Said::Other(why))) => self.say(&serde_json::json!({ "error": why })),
                Ok(Some(Said::Reset(seed))) => {
                    self.pending = Some(seed);
                    return None;
                }
                Ok(None | Some(Said::End)) => {
                    self.closed = true;
                    return None;
                }
                Err(error) => {
                    self.broken = Some(error);
                    return None;
                }
            }
        }
    }
}
