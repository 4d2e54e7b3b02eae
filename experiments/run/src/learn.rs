//! Fitting predictors to a profile, and how good they are on what they have not seen.

mod solo;

use std::collections::{BTreeMap, BTreeSet};

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::random::Stream;
use sandtable_hardware::{GpuProfile, Pair, Profile, catalogue};
use sandtable_nets::{Bias, Draw, Features, Known, Mlp, NeuMf, Pairs, Rule, Seen, Weights};

pub use solo::{Measured, MemoryError, SoloError, cross_validate, forests, horus_features, memory_errors};

/// Predictors that have something to fit.
pub const TRAINABLE: [&str; 5] = ["iasp", "iapp", "bias", "utilisation", "forest"];

/// Networks whose mean is IASP's answer, and IAPP's.
const IASP_NETS: usize = 3;
const IAPP_NETS: usize = 2;

/// Part of a workload's row that must be known before networks are trained on it (ours: with less, bias does as well).
const ROW: f64 = 0.2;

struct Draws(Stream);

impl Draw for Draws {
    fn uniform(&mut self) -> f64 {
        self.0.uniform()
    }
    fn normal(&mut self) -> f64 {
        self.0.normal()
    }
}

/// What is known of pairs on one type of GPU.
pub struct Dataset {
    /// The type.
    pub kind: String,
    /// The workloads.
    pub known: Vec<Known>,
    /// Unordered pairs that ran, with the speed of each side that was measured.
    pairs: Vec<(usize, usize, Option<f64>, Option<f64>)>,
}

impl Dataset {
    /// The pairs of a profile: those measured, else what fitted sensitivity and aggressiveness say. Pairs that run out
    /// of memory are no samples.
    ///
    /// # Errors
    /// A type that the profile lacks, or one of which it knows nothing together.
    pub fn new(profile: &Profile, kind: &str) -> Result<Dataset, Error> {
        let Some(gpu) = profile.gpus.iter().find(|gpu| gpu.kind == kind) else {
            let known = || profile.gpus.iter().map(|gpu| gpu.kind.as_str());
            let error = Error::usage(format!("the profile has nothing for {kind:?}"));
            return Err(match nearest(kind, known()) {
                Some(near) => error.hint(format!("did you mean {near:?}?")),
                None => error.hint(format!("it has {}", known().collect::<Vec<_>>().join(", "))),
            });
        };
        let memory = catalogue::find(kind).map_or(0, catalogue::GpuModel::memory);
        let known = profile.workloads.iter().map(|workload| {
            let solo = gpu.solo.get(&workload.name).cloned().unwrap_or_default();
            let or_nan = |x: Option<f64>| x.unwrap_or(f64::NAN);
            let part = solo.memory_mib.map(|mib| f64::from(mib) / f64::from(memory));
            let gradient = workload.gradient_mb.map(|mb| mb / 1000.0);
            let numbers = [solo.utilisation, solo.memory_utilisation, part, workload.batch, solo.step_s, gradient];
            let features = Features::new(numbers.map(or_nan), workload.mixed_precision);
            Known { name: workload.name.clone(), family: workload.family.clone(), features }
        });
        let pairs = if gpu.pairs.is_empty() { fitted(profile, gpu, memory) } else { measured(profile, gpu) };
        if pairs.is_empty() {
            let why = format!("{kind}: the profile has neither pairs nor sensitivities to learn from");
            return Err(Error::usage(why));
        }
        Ok(Dataset { kind: kind.into(), known: known.collect(), pairs })
    }

    /// How many unordered pairs there are.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// A random part of the pairs, and the others.
    pub fn split(&self, observed: f64, seed: u64) -> (Vec<usize>, Vec<usize>) {
        let mut draws = Stream::new(seed, &format!("predictor/split/{}", self.kind));
        let mut order: Vec<(u64, usize)> = (0..self.pairs.len()).map(|at| (draws.integer(), at)).collect();
        order.sort_unstable();
        let order: Vec<usize> = order.into_iter().map(|(_, at)| at).collect();
        let cut = ((self.pairs.len() as f64 * observed).round() as usize).min(self.pairs.len());
        (order[..cut].to_vec(), order[cut..].to_vec())
    }

    /// Pairs without and pairs with a workload for which `is` holds.
    pub fn without(&self, is: impl Fn(&Known) -> bool) -> (Vec<usize>, Vec<usize>) {
        let has = |at: &usize| is(&self.known[self.pairs[*at].0]) || is(&self.known[self.pairs[*at].1]);
        (0..self.pairs.len()).partition(|at| !has(at))
    }

    /// Both directions of these pairs.
    pub fn seen(&self, pairs: &[usize]) -> Vec<Seen> {
        let mut seen = Vec::new();
        for at in pairs {
            let (i, j, one, other) = self.pairs[*at];
            seen.extend(one.map(|y| (i, j, y)));
            seen.extend(other.filter(|_| i != j).map(|y| (j, i, y)));
        }
        seen
    }
}

/// Mean of both halves where a workload runs beside itself.
fn measured(profile: &Profile, gpu: &GpuProfile) -> Vec<(usize, usize, Option<f64>, Option<f64>)> {
    let ran = |speed: Option<f64>| speed.filter(|y| *y > 0.0).map(|y| y.min(1.0));
    let pair = |Pair(first, second, one, other): &Pair| {
        let (i, j) = (profile.id(first)?.index(), profile.id(second)?.index());
        let (one, other) = match (i == j, ran(*one), ran(*other)) {
            (true, Some(one), Some(other)) => (Some((one + other) / 2.0), None),
            (_, one, other) => (one, other),
        };
        (one.is_some() || other.is_some()).then_some((i, j, one, other))
    };
    gpu.pairs.iter().filter_map(pair).collect()
}

fn fitted(profile: &Profile, gpu: &GpuProfile, memory: u32) -> Vec<(usize, usize, Option<f64>, Option<f64>)> {
    let solo: Vec<_> =
        profile.workloads.iter().map(|workload| gpu.solo.get(&workload.name).cloned().unwrap_or_default()).collect();
    let speed = |i: usize, j: usize| Some(1.0 / (1.0 + solo[i].sensitivity? * solo[j].aggressiveness?));
    let fits =
        |i: usize, j: usize| memory == 0 || solo[i].memory_mib.unwrap_or(0) + solo[j].memory_mib.unwrap_or(0) <= memory;
    let all = (0..solo.len()).flat_map(|i| (i..solo.len()).map(move |j| (i, j)));
    let ran = all.filter(|(i, j)| fits(*i, *j) && speed(*i, *j).is_some());
    ran.map(|(i, j)| (i, j, speed(i, j), speed(j, i))).collect()
}

/// Fits a predictor to these pairs of a dataset.
///
/// # Errors
/// A predictor that has nothing to fit, or features that the profile lacks.
pub fn train(predictor: &str, data: &Dataset, pairs: &[usize], seed: u64) -> Result<Pairs, Error> {
    let seen = data.seen(pairs);
    let draws = |net: usize| Draws(Stream::new(seed, &format!("predictor/{predictor}/{}/{net}", data.kind)));
    match predictor {
        "bias" => {
            Ok(Pairs { known: data.known.clone(), bias: Some(Bias::fit(data.known.len(), &seen)), ..Pairs::default() })
        }
        "iasp" => Ok(iasp(data, &seen, draws)),
        "iapp" => {
            let rows = rows(data, &seen)?;
            let known_in = |at: usize| seen.iter().any(|(i, j, _)| *i == at || *j == at);
            let there = data.known.iter().enumerate().filter(|(at, _)| known_in(*at));
            let inputs: Vec<(Vec<f64>, f64)> = rows.iter().map(|(a, b, y)| (Features::inputs(*a, &[*b]), *y)).collect();
            let rule: Vec<(f64, f64, f64)> = rows.iter().map(|(a, b, y)| (a[0], b[0], *y)).collect();
            Ok(Pairs {
                known: there.map(|(_, known)| known.clone()).collect(),
                mlp: (0..IAPP_NETS).map(|net| Mlp::train(&inputs, &mut draws(net))).collect(),
                rule: Some(Rule::fit(&rule)),
                ..Pairs::default()
            })
        }
        "utilisation" => {
            let rows = rows(data, &seen)?;
            let rule: Vec<(f64, f64, f64)> = rows.iter().map(|(a, b, y)| (a[0], b[0], *y)).collect();
            Ok(Pairs { known: data.known.clone(), rule: Some(Rule::fit(&rule)), ..Pairs::default() })
        }
        other => {
            let hint = format!("there are {}", TRAINABLE.join(", "));
            Err(Error::usage(format!("`{other}` has nothing to fit")).hint(hint))
        }
    }
}

/// Features of both and the speed of the first.
type PairSample = ([f64; 5], [f64; 5], f64);

fn rows(data: &Dataset, seen: &[Seen]) -> Result<Vec<PairSample>, Error> {
    let five = |at: usize| {
        data.known[at].features.five().ok_or_else(|| {
            let name = &data.known[at].name;
            Error::usage(format!("{}: {name} has no utilisations and memory: iapp needs them", data.kind))
                .hint("iasp learns from pairs alone")
        })
    };
    seen.iter().map(|(i, j, y)| Ok((five(*i)?, five(*j)?, *y))).collect()
}

fn iasp(data: &Dataset, seen: &[Seen], draws: impl Fn(usize) -> Draws) -> Pairs {
    let count = data.known.len();
    let mut partners = vec![BTreeSet::new(); count];
    for (i, j, _) in seen {
        partners[*i].insert(*j);
        partners[*j].insert(*i);
    }
    // Those without a pair are unknown: at run time they are taken for their like.
    let order: Vec<usize> = (0..count).filter(|at| !partners[*at].is_empty()).collect();
    let place: BTreeMap<usize, usize> = order.iter().enumerate().map(|(to, from)| (*from, to)).collect();
    let seen: Vec<Seen> = seen.iter().map(|(i, j, y)| (place[i], place[j], *y)).collect();
    let hardly: Vec<usize> =
        order.iter().filter(|at| (partners[**at].len() as f64) < ROW * count as f64).map(|at| place[at]).collect();
    let well = |(i, j, _): &&Seen| !hardly.contains(i) && !hardly.contains(j);
    let trained: Vec<Seen> = seen.iter().filter(well).copied().collect();
    let mut bias = Bias::fit(order.len(), &trained);
    for workload in &hardly {
        bias.probe(*workload, &seen);
    }
    Pairs {
        known: order.iter().map(|at| data.known[*at].clone()).collect(),
        neumf: (0..IASP_NETS).map(|net| NeuMf::train(order.len(), &trained, &mut draws(net))).collect(),
        probed: hardly,
        bias: Some(bias),
        ..Pairs::default()
    }
}

/// A weights file for all or some types of a profile.
///
/// # Errors
/// See [`Dataset::new`] and [`train`].
pub fn weights(predictor: &str, profile: &Profile, kinds: &[String], training: &Training) -> Result<Weights, Error> {
    let Training { observed, hold_out, seed, used_on } = training;
    let mut gpus = BTreeMap::new();
    let all: Vec<String> = profile.gpus.iter().map(|gpu| gpu.kind.clone()).collect();
    let kinds = if kinds.is_empty() { &all } else { kinds };
    if used_on.is_some() && kinds.len() != 1 {
        let message = format!("weights of one type can be used on another, found those of {}", kinds.join(", "));
        return Err(Error::usage(message).hint("name it: --gpu KIND"));
    }
    if predictor == "forest" {
        return forests(profile, kinds, *seed);
    }
    let unseen = held_out(profile, *hold_out, *seed);
    for kind in kinds {
        let data = Dataset::new(profile, kind)?;
        let (mut pairs, _) = data.split(*observed, *seed);
        let (seen, _) = data.without(|known| unseen.contains(&known.name));
        pairs.retain(|at| seen.contains(at));
        gpus.insert(used_on.as_ref().unwrap_or(kind).clone(), train(predictor, &data, &pairs, *seed)?);
    }
    let mut part = format!("{} % of pairs observed, seed {seed}", observed * 100.0);
    if !unseen.is_empty() {
        part.push_str(&format!(", none of {}", unseen.iter().cloned().collect::<Vec<_>>().join(", ")));
    }
    if let Some(kind) = used_on {
        part.push_str(&format!(", measured on {}, used on {kind}", kinds[0]));
    }
    Ok(Weights { predictor: predictor.into(), about: format!("{}; {part}", profile.about), gpus })
}

/// What weights are fitted to.
#[derive(Clone, Debug)]
pub struct Training {
    /// Part of the pairs that is observed, 0 to 1.
    pub observed: f64,
    /// Part of the workloads of which no pair is observed, 0 to 1.
    pub hold_out: f64,
    /// What splits and initial weights are drawn from.
    pub seed: u64,
    /// The type of GPU on which the weights are used; that of the measurements by default.
    pub used_on: Option<String>,
}

/// Workloads of which no pair is observed: the same on every type.
fn held_out(profile: &Profile, part: f64, seed: u64) -> BTreeSet<String> {
    let mut draws = Stream::new(seed, "predictor/hold-out");
    let mut order: Vec<(u64, &str)> =
        profile.workloads.iter().map(|workload| (draws.integer(), workload.name.as_str())).collect();
    order.sort_unstable();
    let count = (order.len() as f64 * part).round() as usize;
    order.into_iter().take(count).map(|(_, name)| name.to_string()).collect()
}

/// How pairs are held out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Split {
    /// Random pairs of known workloads.
    #[default]
    Pairs,
    /// All pairs of a model family, each family in turn.
    Family,
    /// All pairs of a workload but a few probes, each workload in turn.
    Workload,
}

/// Mean absolute error by model, on what was held out.
pub type Errors = Vec<(String, f64)>;

/// Held-out errors of a predictor and of the baselines it must beat.
///
/// # Errors
/// See [`train`].
pub fn evaluate(
    predictor: &str,
    data: &Dataset,
    split: Split,
    observed: f64,
    probes: usize,
    seed: u64,
) -> Result<Errors, Error> {
    let mut folds: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    match split {
        Split::Pairs => folds.push(data.split(observed, seed)),
        Split::Family => {
            let families: std::collections::BTreeSet<&str> =
                data.known.iter().map(|known| known.family.as_str()).collect();
            folds.extend(families.into_iter().map(|family| data.without(|known| known.family == family)));
        }
        Split::Workload => {
            for (at, out) in data.known.iter().enumerate() {
                let (mut rest, mut held) = data.without(|known| known.name == out.name);
                let mut draws = Stream::new(seed, &format!("predictor/probes/{}/{at}", data.kind));
                for _ in 0..probes.min(held.len().saturating_sub(1)) {
                    let pick = (draws.uniform() * held.len() as f64) as usize;
                    rest.push(held.remove(pick));
                }
                folds.push((rest, held));
            }
        }
    }
    let mut sums: Vec<(String, f64, f64)> = Vec::new();
    for (seen, held) in folds.into_iter().filter(|(seen, held)| !seen.is_empty() && !held.is_empty()) {
        for (name, error) in fold(predictor, data, &seen, &held, seed)? {
            let slot = match sums.iter().position(|(known, _, _)| *known == name) {
                Some(slot) => slot,
                None => {
                    sums.push((name, 0.0, 0.0));
                    sums.len() - 1
                }
            };
            sums[slot].1 += error.0;
            sums[slot].2 += error.1;
        }
    }
    if sums.is_empty() {
        return Err(Error::usage("nothing is observed, or nothing held out: observe more, or less"));
    }
    Ok(sums.into_iter().map(|(name, sum, count)| (name, sum / count)).collect())
}

/// (sum, count) of absolute errors by model.
type Fold = Vec<(String, (f64, f64))>;

fn fold(predictor: &str, data: &Dataset, train_on: &[usize], held: &[usize], seed: u64) -> Result<Fold, Error> {
    let (seen, test) = (data.seen(train_on), data.seen(held));
    let model = train(predictor, data, train_on, seed)?;
    let bias = Bias::fit(data.known.len(), &seen);
    let mean = bias.mean;
    let sum = |answer: &dyn Fn(usize, usize) -> Option<f64>| {
        let errors: Vec<f64> = test.iter().filter_map(|(i, j, y)| Some((answer(*i, *j)? - y).abs())).collect();
        (errors.iter().sum::<f64>(), errors.len() as f64)
    };
    let of = |at: usize| &data.known[at];
    let mut out: Fold = vec![("mean".into(), sum(&|_, _| Some(mean)))];
    out.push(("bias".into(), sum(&|i, j| Some(bias.forward(i, j)))));
    match predictor {
        "iasp" => {
            let answer = |i: usize, j: usize| {
                let (a, b) = (of(i), of(j));
                Some(model.filtered((&a.name, &a.features), (&b.name, &b.features)))
            };
            out.push(("iasp".into(), sum(&answer)));
        }
        "utilisation" => {
            let use_of = |at: usize| of(at).features.five().map(|five| five[0]);
            let share = |i: usize, j: usize| Some(1.0 / (use_of(i)? + use_of(j)?).max(1.0));
            out.push(("share of the GPU".into(), sum(&share)));
            let rule = model.rule.unwrap_or_default();
            out.push(("utilisation".into(), sum(&|i, j| Some(rule.forward(use_of(i)?, use_of(j)?)))));
        }
        "iapp" => {
            let use_of = |at: usize| of(at).features.five().map(|five| five[0]);
            let share = |i: usize, j: usize| Some(1.0 / (use_of(i)? + use_of(j)?).max(1.0));
            out.push(("share of the GPU".into(), sum(&share)));
            let rule = model.rule.unwrap_or_default();
            out.push(("rule".into(), sum(&|i, j| Some(rule.forward(use_of(i)?, use_of(j)?)))));
            let net = |i: usize, j: usize| {
                let inputs = Features::inputs(of(i).features.five()?, &[of(j).features.five()?]);
                Some(model.mlp.iter().map(|net| net.forward(&inputs)).sum::<f64>() / model.mlp.len() as f64)
            };
            out.push(("network".into(), sum(&net)));
            let answer = |i: usize, j: usize| model.profiled(&of(i).family, &of(i).features, &[&of(j).features]);
            out.push(("iapp".into(), sum(&answer)));
        }
        _ => {}
    }
    Ok(out)
}
