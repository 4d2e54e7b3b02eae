//! Pollux' models on three types of GPU: what ships for policies that choose a type.
//
// The factors are facts of Sia's artifact (github.com/siasosp23/artifacts; Jayaram Subramanya et al., SOSP 2023; it states no licence): samples a
// second on one GPU over those on a T4, of its measured placements.

use sandtable_core::error::Error;
use sandtable_hardware::elastic::{Steps, Theta};
use sandtable_hardware::{GpuProfile, Profile};

/// A model, local batches, and how many times as fast as on a T4 one GPU is with each: an RTX 2080 Ti, an A100.
type Row = (&'static str, &'static [f64], [&'static [f64]; 2]);

const KINDS: [&str; 2] = ["RTX-2080-Ti", "A100-SXM4-40GB"];

const FACTORS: [Row; 6] = [
    ("cifar10", &[32.0, 129.0, 725.0], [&[0.98, 1.39, 2.18], &[1.22, 2.68, 5.36]]),
    ("imagenet", &[20.0, 57.0, 163.0], [&[0.69, 1.51, 1.51], &[0.97, 1.95, 3.13]]),
    ("bert", &[4.0, 11.0], [&[1.80, 2.07], &[3.07, 5.24]]),
    ("deepspeech2", &[10.0, 57.0], [&[1.56, 1.55], &[1.10, 1.49]]),
    ("yolov3", &[4.0, 8.0], [&[0.62, 0.55], &[1.08, 1.08]]),
    ("ncf", &[32.0, 1025.0, 32768.0], [&[0.59, 0.60, 1.05], &[0.79, 0.88, 1.99]]),
];

/// The models of [`super::pollux_fitted`] on two more types: a pass computes by a line through what the factors make of its time on a T4; the exchange of
/// gradients takes what it takes there.
///
/// # Errors
/// Another profile.
pub fn pollux_types(fitted: &Profile) -> Result<Profile, Error> {
    let mut profile = fitted.clone();
    profile.about = "Six models on T4, fitted to what Pollux measured (Qiao et al., OSDI 2021), and on RTX 2080 Ti and A100 by the factors of Sia's artifact \
                     (Jayaram Subramanya et al., SOSP 2023); restarts as in DeepBoot's simulator"
        .into();
    for (name, locals, factors) in FACTORS {
        let wrong = || Error::usage(format!("{name}: no fitted model"));
        let elastic = profile.workloads.iter_mut().find(|workload| workload.name == name);
        let elastic = elastic.and_then(|workload| workload.elastic.as_mut()).ok_or_else(wrong)?;
        let Steps::Fitted(here) = elastic.steps else { return Err(wrong()) };
        for (kind, factors) in KINDS.into_iter().zip(factors) {
            let times = locals
                .iter()
                .zip(factors)
                .map(|(local, factor)| (*local, (here.compute.0 + here.compute.1 * local) / factor));
            let theta = Theta { compute: line(&times.collect::<Vec<_>>()), ..here };
            elastic.on.insert(kind.into(), Steps::Fitted(theta));
        }
    }
    let source = "factors of one GPU over a T4 by local batch, from the measured placements of Sia's artifact \
                  (github.com/siasosp23/artifacts, no licence stated); the exchange of gradients as on T4: not measured";
    let gpu = |kind: &str| GpuProfile {
        kind: kind.into(),
        sources: super::sources([("elastic", source)]),
        ..GpuProfile::default()
    };
    profile.gpus.extend(KINDS.into_iter().map(gpu));
    profile.check().map_err(|error| Error::usage(error.to_string()))?;
    Ok(profile)
}

/// The line `a + b x` of the least squared relative errors, to five digits; neither is negative.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y)).sum::<f64>();
    let (w, x, xx) = (sum(&|_, y| 1.0 / (y * y)), sum(&|x, y| x / (y * y)), sum(&|x, y| x * x / (y * y)));
    let (y, xy) = (sum(&|_, y| 1.0 / y), sum(&|x, y| x / y));
    let slope = (w * xy - x * y) / (w * xx - x * x);
    let (first, slope) = if slope < 0.0 { (y / w, 0.0) } else { ((y - slope * x) / w, slope) };
    let (first, slope) = if first > 0.0 { (first, slope) } else { (1e-6, xy / xx) };
    let digits = |x: f64| format!("{x:.4e}").parse().unwrap_or(x);
    (digits(first), digits(slope))
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn lines_go_through_two_points_and_never_below_zero() {
        assert_eq!(line(&[(1.0, 3.0), (3.0, 7.0)]), (1.0, 2.0));
        assert_eq!(line(&[(1.0, 1.0), (2.0, 0.5)]).1, 0.0);
        assert_eq!(line(&[(1.0, 1.0), (2.0, 4.0)]).0, 1e-6);
    }
}
