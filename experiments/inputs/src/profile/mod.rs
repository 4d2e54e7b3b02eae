//! Profiles from files: our own format, and the user's copies of published measurements.

mod elasticflow;
mod gavel;
mod gpumemnet;
mod lucid;
mod muri;
mod pollux;
#[cfg(test)]
mod pollux_fit;
mod pollux_types;
mod shockwave;
mod synthetic;
#[cfg(test)]
mod tests;
mod throughput;

use std::collections::BTreeMap;
use std::path::Path;

use sandtable_core::diagnostic;
use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_hardware::{Pair, Profile, Solo};

/// Where the columns of a table come from.
fn sources<const N: usize>(of: [(&str, &str); N]) -> BTreeMap<String, String> {
    BTreeMap::from(of.map(|(what, source)| (what.to_string(), source.to_string())))
}

/// Most bytes of a table of measurements, decompressed.
const MOST: u64 = 1 << 30;

pub use elasticflow::elasticflow;
pub use gavel::gavel;
pub use gpumemnet::gpumemnet;
pub use lucid::lucid;
pub use muri::muri;
pub use pollux::{pollux, pollux_fitted};
pub use pollux_types::pollux_types;
pub use shockwave::shockwave;
pub use synthetic::synthetic;
pub use throughput::{fitted, gavel_simulation, throughputs, torchvision};

/// Reads a profile in our own format.
///
/// # Errors
/// The place of what can't be understood, or of what makes no sense.
pub fn read(path: &Path) -> Result<Profile, Error> {
    let text = sandtable_core::input::text(path, sandtable_core::input::SPEC)?;
    parse(&text, path.display().to_string())
}

/// Reads a profile in our own format from its text; `origin` names it in errors.
///
/// ```
/// let error = sandtable_inputs::profile::parse("(about: \"empty\")", "p.ron".into()).expect_err("it has no workloads");
/// assert!(error.message.contains("p.ron:1"), "{}", error.message);
/// ```
///
/// # Errors
/// See [`read`].
pub fn parse(text: &str, origin: String) -> Result<Profile, Error> {
    let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
    let profile: Profile = options.from_str(text).map_err(|error| {
        let place = |at: ron::error::Position| diagnostic::offset(text, at.line, at.col);
        let span = place(error.span.start)..place(error.span.end);
        let hint = match &error.code {
            ron::Error::NoSuchStructField { expected, found, .. } => {
                nearest(found, expected.iter().copied()).map(|near| format!("did you mean `{near}`?"))
            }
            _ => None,
        };
        diagnostic::at(&origin, text, span, &error.code.to_string(), "here", hint)
    })?;
    profile.check().map_err(|error| Error::usage(format!("{origin}: {error}")))?;
    Ok(profile)
}

/// A profile in our own format.
///
/// # Errors
/// Never, as far as we know: a profile has nothing that RON lacks.
pub fn write(profile: &Profile) -> Result<String, Error> {
    let pretty = ron::ser::PrettyConfig::new()
        .struct_names(false)
        .compact_arrays(true)
        .depth_limit(4)
        .extensions(ron::extensions::Extensions::IMPLICIT_SOME);
    ron::ser::to_string_pretty(profile, pretty)
        .map(|text| text + "\n")
        .map_err(|error| Error::internal(error.to_string()))
}

/// Memory that explains which pairs ran out of it, as well as memory that adds up can: estimates, MiB. Pairs that
/// failed push both up until they exceed the capacity together, pairs that ran pull both down until they don't.
fn fit_memory(names: &[&str], pairs: &[Pair], capacity: u32) -> Vec<u32> {
    let index = |name: &str| names.iter().position(|known| *known == name);
    let mut memory = vec![f64::from(capacity) * 0.2; names.len()];
    for round in 0..2_000 {
        let rate = 0.2 / (1.0 + f64::from(round) / 100.0);
        for Pair(first, second, one, _) in pairs {
            let (Some(a), Some(b), Some(one)) = (index(first), index(second), one) else { continue };
            let over = memory[a] + memory[b] - f64::from(capacity);
            let failed = *one == 0.0;
            // A margin keeps a pair that ran from failing on a rounding.
            let margin = f64::from(capacity) * 0.01;
            let wrong = if failed { over < margin } else { over > -margin };
            if wrong {
                let step = rate * (over.abs() + margin) / 2.0 * if failed { 1.0 } else { -1.0 };
                for at in [a, b] {
                    memory[at] = (memory[at] + step).clamp(500.0, f64::from(capacity) * 0.95);
                }
            }
        }
    }
    memory.into_iter().map(|mib| (mib / 10.0).round() as u32 * 10).collect()
}

/// Least-squares `S` and `A` of `1 / (1 + S A)` on the pairs that ran, ridge 0.02 on the logarithms, by alternating
/// Newton steps; gauge: the geometric mean of S is 1. The law is ours.
fn fit_sensitivity(names: &[&str], pairs: &[Pair], solo: &mut std::collections::BTreeMap<String, Solo>) {
    let index = |name: &str| names.iter().position(|known| *known == name);
    let mut seen: Vec<(usize, usize, f64)> = Vec::new();
    for Pair(first, second, one, other) in pairs {
        if let (Some(i), Some(j)) = (index(first), index(second)) {
            seen.extend(one.filter(|y| *y > 0.0).map(|y| (i, j, y)));
            seen.extend(other.filter(|y| *y > 0.0 && i != j).map(|y| (j, i, y)));
        }
    }
    let (mut s, mut a) = (vec![0.0f64; names.len()], vec![-1.0f64; names.len()]);
    for _ in 0..300 {
        for victims in [true, false] {
            let mut steps = vec![(0.0, 0.0); names.len()];
            for (i, j, y) in &seen {
                let product = libm::exp(s[*i] + a[*j]);
                let speed = 1.0 / (1.0 + product);
                // The derivative of the speed by either logarithm.
                let slope = -speed * speed * product;
                let of = if victims { *i } else { *j };
                steps[of].0 += slope * (y - speed);
                steps[of].1 += slope * slope;
            }
            let logs = if victims { &mut s } else { &mut a };
            for (log, (gradient, curve)) in logs.iter_mut().zip(steps) {
                let prior = if victims { 0.0 } else { -1.0 };
                let step = (gradient - 0.02 * (*log - prior)) / (curve + 0.02);
                *log = (*log + step.clamp(-0.5, 0.5)).clamp(-7.0, 3.0);
            }
        }
        let mean = s.iter().sum::<f64>() / s.len() as f64;
        s.iter_mut().for_each(|log| *log -= mean);
        a.iter_mut().for_each(|log| *log += mean);
    }
    let short = |log: f64| (libm::exp(log) * 1e4).round() / 1e4;
    for (at, name) in names.iter().enumerate() {
        // A workload that no pair tells anything of keeps no figure.
        if seen.iter().any(|(i, j, _)| *i == at || *j == at) {
            let solo = solo.entry((*name).to_string()).or_default();
            (solo.sensitivity, solo.aggressiveness) = (Some(short(s[at])), Some(short(a[at])));
        }
    }
}

/// `x` with four significant decimals after the first non-zero one, and at most 1: a speed that a file keeps.
fn speed(x: f64) -> f64 {
    (x.min(1.0) * 1e6).round() / 1e6
}
