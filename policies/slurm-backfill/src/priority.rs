//! Priorities that change as jobs wait and users use GPUs, by the rules of Slurm's priority/multifactor.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use sandtable_policy::{Cluster, Config, Instant, Job, JobId, Node, PolicyError, QueueId, Setup};

use serde::Deserialize;

use crate::SECOND;
use crate::fair_share::{Member, Rule, factors};

/// Slurm's approximation of the logarithm of 2.
const LN_2: f64 = 0.693;

/// What a priority is made of, and what users have used.
pub struct Priorities {
    age: f64,
    /// µs.
    max_age: u64,
    included: bool,
    size: f64,
    favor_small: bool,
    fair_share: f64,
    rule: Rule,
    damping: f64,
    count_ends: bool,
    /// What is left of usage after a second.
    decay: f64,
    /// µs between reckonings, and of the first.
    period: u64,
    phase: u64,
    nodes: f64,
    gpus: f64,
    cores_milli: f64,
    members: BTreeMap<Key, usize>,
    usage: Vec<Usage>,
    /// GPUs and member of jobs that run, and since when their use is not counted yet.
    running: BTreeMap<JobId, (usize, u64, Instant)>,
    /// Of these the ones that have started since the last reckoning.
    fresh: BTreeSet<JobId>,
    last: Option<Instant>,
    /// Factors of the last reckoning; none: they have to be computed.
    shares: Option<Vec<f64>>,
    /// The factors before the first reckoning.
    began: Option<Vec<f64>>,
    /// What the priorities of jobs hold already.
    held: BTreeMap<JobId, f64>,
}

/// A user's part, as the parameter says it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Association {
    queue: Option<String>,
    user: String,
    #[serde(default = "one")]
    shares: f64,
    #[serde(default)]
    used: f64,
}

fn one() -> f64 {
    1.0
}

/// A user and the queue of the user's jobs.
type Key = (Option<QueueId>, Rc<str>);

/// What a user has used, GPU-s, decayed until the last reckoning.
struct Usage {
    shares: f64,
    now: f64,
    /// At the last reckoning.
    reckoned: f64,
    /// GPUs of jobs that ran at the last reckoning and run still.
    steady: u64,
}

impl Priorities {
    pub fn new(config: &Config, setup: &Setup) -> Result<Priorities, PolicyError> {
        let half_life = config.number("half_life");
        let nodes: &[Node] = &setup.topology.nodes;
        let mut priorities = Priorities {
            age: config.number("weight_age"),
            max_age: config.micros("max_age"),
            included: config.flag("included"),
            size: config.number("weight_size"),
            favor_small: config.flag("favor_small"),
            fair_share: config.number("weight_fair_share"),
            rule: if config.choice("fair_share") == "classic" { Rule::Classic } else { Rule::Tree },
            damping: config.number("damping"),
            count_ends: config.flag("count_ends"),
            decay: if half_life > 0.0 { (1.0 - LN_2 / half_life).max(0.0) } else { 1.0 },
            period: config.micros("calc_period"),
            phase: config.micros("calc_phase"),
            nodes: nodes.len() as f64,
            gpus: nodes.iter().map(|node| f64::from(node.gpus)).sum(),
            cores_milli: nodes.iter().map(|node| f64::from(node.host.cpu_milli)).sum(),
            members: BTreeMap::new(),
            usage: Vec::new(),
            running: BTreeMap::new(),
            fresh: BTreeSet::new(),
            last: None,
            shares: None,
            began: None,
            held: BTreeMap::new(),
        };
        let named: Vec<Association> = serde_json::from_value(config.any("associations").clone())
            .map_err(|error| PolicyError::BadConfig(format!("`associations`: {error}")))?;
        for association in named {
            priorities
                .enter(association, setup)
                .map_err(|why| PolicyError::BadConfig(format!("`associations`: {why}")))?;
        }
        Ok(priorities)
    }

    fn enter(&mut self, association: Association, setup: &Setup) -> Result<(), String> {
        let Association { queue, user, shares, used } = association;
        for (what, value) in [("shares", shares), ("used", used)] {
            if !(0.0..=1e15).contains(&value) {
                return Err(format!("user {user:?}: `{what}`: expected a number from 0 to 1e15, found {value}"));
            }
        }
        let find = |name: &String| setup.queues.iter().find(|queue| queue.name == *name).map(|queue| queue.id);
        let id = match &queue {
            Some(name) => Some(find(name).ok_or_else(|| format!("no queue is named {name:?}"))?),
            None => None,
        };
        match self.members.insert((id, Rc::from(user.as_str())), self.usage.len()) {
            None => self.usage.push(Usage { shares, now: used, reckoned: used, steady: 0 }),
            Some(_) => return Err(format!("user {user:?} is named twice in one queue")),
        }
        Ok(())
    }

    /// Whether priorities change at all.
    pub fn change(&self) -> bool {
        self.age > 0.0 || self.fair_share > 0.0
    }

    /// When they are next computed anew, if they change.
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let ticks = now.checked_sub(self.phase).map_or(0, |since| since / self.period + 1);
        self.change().then(|| self.phase + ticks * self.period)
    }

    fn counts(&self) -> bool {
        self.fair_share > 0.0
    }

    /// A job holds GPUs from then on.
    pub fn starts(&mut self, job: &Job, at: Instant) {
        if self.counts() {
            let member = self.member(job);
            self.holds(job.id, member, u64::from(job.gpus), at);
        }
    }

    fn holds(&mut self, job: JobId, member: usize, gpus: u64, at: Instant) {
        if let Entry::Vacant(free) = self.running.entry(job) {
            free.insert((member, gpus, at));
            self.fresh.insert(job);
        }
    }

    /// A job has held its GPUs until then.
    pub fn stops(&mut self, job: JobId, at: Instant) {
        self.held.remove(&job);
        let Some((member, gpus, since)) = self.running.remove(&job) else { return };
        let usage = &mut self.usage[member];
        if !self.fresh.remove(&job) {
            usage.steady -= gpus;
        }
        if self.count_ends {
            usage.now += used(gpus, since.max(self.last.unwrap_or(0)), at, self.decay);
        }
    }

    /// A job has come: its user is known from now on.
    pub fn meet(&mut self, job: &Job) {
        if self.counts() {
            self.member(job);
        }
    }

    /// A job waits from now on.
    pub fn waits(&mut self, cluster: &Cluster, job: &Job, now: Instant) {
        if !self.included {
            return;
        }
        let mut held = self.age * self.age_of(job, now);
        if self.counts() {
            let member = self.member(job);
            // What a user that comes later would have had then is what it has when it comes.
            let known = self.began.as_ref().map_or(0, Vec::len);
            if member >= known {
                let new = self.shares(cluster)[known..].to_vec();
                self.began.get_or_insert_default().extend(new);
            }
            held += self.fair_share * self.began.as_ref().map_or(0.0, |began| began[member]);
        }
        self.held.insert(job.id, held);
    }

    /// Reckons usage at each instant until `to` at which that is due; whether one was, and the last.
    pub fn reckon(&mut self, to: Instant) -> Option<Instant> {
        let since = to.checked_sub(self.phase).filter(|_| self.change())?;
        let last = self.phase + since / self.period * self.period;
        if self.last.is_some_and(|before| before >= last) {
            return None;
        }
        // What was used before is so at the beginning; of a captured cluster that is now.
        let began = if self.included { to } else { 0 };
        let first = self.last.map_or(last, |before| before + self.period);
        let since = first.saturating_sub(self.last.unwrap_or(began)) as f64 / 1e6;
        let (seconds, more) = ((self.period as f64) / 1e6, (last - first) / self.period);
        let (decays, decayed) = (libm::pow(self.decay, seconds), libm::pow(self.decay, since));
        for usage in &mut self.usage {
            usage.now = usage.now * decayed + usage.steady as f64 * since * decayed;
        }
        for id in std::mem::take(&mut self.fresh) {
            let (member, gpus, since) = self.running[&id];
            let usage = &mut self.usage[member];
            usage.now += used(gpus, since.min(first), first, self.decay);
            usage.steady += gpus;
        }
        if more > 0 {
            // So many more in which nothing started or ended: a geometric series.
            let all = libm::pow(decays, more as f64);
            let sum = if decays < 1.0 { decays * (1.0 - all) / (1.0 - decays) } else { more as f64 };
            for usage in &mut self.usage {
                usage.now = usage.now * all + usage.steady as f64 * seconds * sum;
            }
        }
        self.usage.iter_mut().for_each(|usage| usage.reckoned = usage.now);
        self.running.values_mut().for_each(|(.., since)| *since = (*since).max(last));
        (self.last, self.shares) = (Some(last), None);
        Some(last)
    }

    /// The priority of a job that waits, by its age at an instant and usage at the last reckoning.
    pub fn of(&mut self, cluster: &Cluster, job: &Job, nodes: u32, at: Instant) -> i64 {
        if !self.change() && self.size == 0.0 {
            return i64::from(job.priority);
        }
        let mut sum = f64::from(job.priority) + self.size * self.size_of(job, nodes);
        if self.age > 0.0 {
            sum += self.age * self.age_of(job, at);
        }
        if self.counts() {
            let member = self.member(job);
            sum += self.fair_share * self.shares(cluster)[member];
        }
        // Those that hold it are whole numbers, rounded down.
        let held = self.held.get(&job.id).map_or(0.0, |held| held.floor());
        (sum - held).floor() as i64
    }

    /// How long a job has waited, as a part of what counts at most. Slurm's clock has whole seconds.
    fn age_of(&self, job: &Job, at: Instant) -> f64 {
        let whole = |at: Instant| at / SECOND * SECOND;
        let waited = whole(at) - whole(at - job.waited(at));
        if waited < self.max_age { waited as f64 / self.max_age as f64 } else { 1.0 }
    }

    /// The mean of a job's parts of the nodes and of their cores; of GPUs where it asks for no cores.
    fn size_of(&self, job: &Job, nodes: u32) -> f64 {
        let cores = match job.host.cpu_milli {
            0 => f64::from(job.gpus) / self.gpus.max(1.0),
            cores => f64::from(cores) / self.cores_milli.max(1.0),
        };
        let size = ((f64::from(nodes) / self.nodes.max(1.0) + cores) / 2.0).clamp(0.0, 1.0);
        if self.favor_small { 1.0 - size } else { size }
    }

    fn member(&mut self, job: &Job) -> usize {
        let next = self.members.len();
        let member = *self.members.entry((job.queue, job.user.clone())).or_insert(next);
        if member == next {
            self.usage.push(Usage { shares: 1.0, now: 0.0, reckoned: 0.0, steady: 0 });
            self.shares = None;
        }
        member
    }

    fn shares(&mut self, cluster: &Cluster) -> &[f64] {
        let (members, usage) = (&self.members, &self.usage);
        let (rule, damping) = (self.rule, self.damping);
        self.shares.get_or_insert_with(|| {
            let mut all = vec![Member { queue: None, shares: 0.0, used: 0.0 }; usage.len()];
            for ((queue, _), member) in members {
                all[*member] = Member { queue: *queue, shares: usage[*member].shares, used: usage[*member].reckoned };
            }
            factors(rule, cluster.queues(), &all, damping)
        })
    }
}

/// GPU-s from an instant to another, decayed by as much as that lasts, as Slurm does.
fn used(gpus: u64, from: Instant, to: Instant, decay: f64) -> f64 {
    let seconds = to.saturating_sub(from) as f64 / 1e6;
    gpus as f64 * seconds * libm::pow(decay, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::PARAMS;
    use sandtable_policy::Queue;
    use sandtable_policy::testing::{cluster, setup};

    fn account(id: QueueId, name: &str, weight: f64) -> Queue {
        Queue { id, name: name.into(), parent: None, guaranteed: 0.0, weight, limit: f64::INFINITY, priority: 0 }
    }

    fn priorities(with: &str) -> (Priorities, Cluster) {
        let accounts = [account(0, "vision", 60.0), account(1, "nlp", 40.0)];
        let setup = Setup { queues: accounts.to_vec(), ..setup(with, &[4; 4], 100) };
        let config = Config::parse(with, &PARAMS).expect("parameters");
        (
            Priorities::new(&config, &setup).unwrap_or_else(|error| panic!("{error}")),
            cluster(&[4; 4]).queued_in(&accounts),
        )
    }

    /// The usage and the factors of a real Slurm's users, minute by minute, given when its jobs ran.
    #[test]
    fn usage_and_factors_are_those_of_a_real_slurm() {
        let (jobs, said) = include_str!("measured.csv").split_once("\n\n").expect("two tables");
        let rows = |table: &'static str| {
            table
                .lines()
                .filter(|line| !line.starts_with('#'))
                .skip(1)
                .map(|line| line.split(',').collect::<Vec<&str>>())
        };
        let with = r#"{"weight_fair_share": 1, "half_life": 120, "calc_period": 60, "count_ends": false, "associations": [{"user": "root"},
            {"queue": "vision", "user": "u1"}, {"queue": "vision", "user": "u3"}, {"queue": "nlp", "user": "u2"}, {"queue": "nlp", "user": "u4", "shares": 3}]}"#;
        let (mut priorities, cluster) = priorities(with);
        let member = |priorities: &Priorities, user: &str| {
            *priorities.members.iter().find(|((_, name), _)| **name == *user).expect("a user").1
        };
        let mut events: Vec<(u64, bool, JobId, usize, u64)> = Vec::new();
        for (id, row) in rows(jobs).enumerate() {
            let second = |at: usize| row[at].parse::<u64>().expect("seconds") * SECOND;
            let (of, gpus) = (member(&priorities, row[1]), row[2].parse().expect("GPUs"));
            events.push((second(3), true, id as JobId, of, gpus));
            events.push((second(4), false, id as JobId, of, gpus));
        }
        events.sort_unstable();
        let (mut next, mut compared) = (0, 0);
        for row in rows(said) {
            let at = row[0].parse::<u64>().expect("seconds") * SECOND;
            while let Some((_, starts, id, of, gpus)) = events.get(next).copied().filter(|event| event.0 < at) {
                priorities.reckon(events[next].0);
                match starts {
                    true => priorities.holds(id, of, gpus, events[next].0),
                    false => priorities.stops(id, events[next].0),
                }
                next += 1;
            }
            priorities.reckon(at);
            let of = member(&priorities, row[1]);
            let (used, factor): (f64, f64) = (row[2].parse().expect("usage"), row[3].parse().expect("a factor"));
            assert!((priorities.usage[of].now - used).abs() < 1.0, "{row:?}: {}", priorities.usage[of].now);
            assert!((priorities.shares(&cluster)[of] - factor).abs() < 1e-9, "{row:?}");
            compared += 1;
        }
        assert_eq!(compared, 36);
    }

    #[test]
    fn usage_after_many_periods_is_what_it_is_period_by_period() {
        let with = |more: &str| {
            format!(
                "{{\"weight_fair_share\": 1, \"half_life\": 1000, \"calc_period\": 60, \"associations\": [{{\"user\": \"u\"}}]{more}}}"
            )
        };
        for more in ["", ", \"calc_phase\": 17", ", \"count_ends\": false"] {
            let [mut at_once, mut each] = [(); 2].map(|()| priorities(&with(more)).0);
            for priorities in [&mut at_once, &mut each] {
                priorities.reckon(20 * SECOND);
                priorities.holds(0, 0, 3, 31 * SECOND);
            }
            for period in 1..=50 {
                each.reckon(period * 60 * SECOND);
            }
            assert!(at_once.reckon(50 * 60 * SECOND).is_some());
            let [a, b] = [&at_once, &each].map(|of| of.usage[0].now);
            assert!(a > 0.0 && (a / b - 1.0).abs() < 1e-12, "{a}, {b}");
            for priorities in [&mut at_once, &mut each] {
                priorities.stops(0, (50 * 60 + 30) * SECOND);
                priorities.stops(0, (50 * 60 + 40) * SECOND);
            }
            assert!((at_once.usage[0].now > a) != more.contains("false"));
        }
    }

    #[test]
    fn what_is_wrong_with_associations_is_said() {
        let refused = |associations: &str| {
            let with = format!("{{\"associations\": {associations}}}");
            let config = Config::parse(&with, &PARAMS).expect("parameters");
            match Priorities::new(&config, &setup("{}", &[4], 1)) {
                Err(PolicyError::BadConfig(why)) => why,
                _ => panic!("{associations} is taken"),
            }
        };
        assert_eq!(refused(r#"[{"user": "u", "queue": "q"}]"#), "`associations`: no queue is named \"q\"");
        assert_eq!(
            refused(r#"[{"user": "u"}, {"user": "u"}]"#),
            "`associations`: user \"u\" is named twice in one queue"
        );
        let negative = refused(r#"[{"user": "u", "shares": -1}]"#);
        assert_eq!(negative, "`associations`: user \"u\": `shares`: expected a number from 0 to 1e15, found -1");
        assert!(refused("[{\"name\": \"u\"}]").contains("unknown field `name`, expected one of"));
    }
}
