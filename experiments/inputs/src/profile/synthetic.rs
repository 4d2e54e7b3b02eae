//! A catalogue of workloads that were not measured, for tests and for users without measurements: utilisations are
//! assumed, the law is our fit to Lucid's pairs on an RTX 3090 (ASPLOS 2023; non-commercial, not shipped), and what a
//! workload suffers and inflicts beyond its utilisation is drawn once, from seed 0: a predictor that sees only
//! utilisations can then explain about half, as of the measured pairs.

use std::collections::BTreeMap;

use sandtable_hardware::random::Stream;
use sandtable_hardware::{GpuProfile, Profile, Ring, ShareMode, Solo, Workload};

/// Family; the model of the catalogue that stands for it; GPU utilisation at batch 32, and what doubling the batch adds; memory utilisation over GPU utilisation; MiB
/// at batch 32, and of each further sample; gradient in MB; seconds of a step at batch 32. All assumed.
type Family = (&'static str, &'static str, f64, f64, f64, f64, f64, f64, f64);

const FAMILIES: [Family; 10] = [
    ("small-cnn", "resnet18_cifar", 0.45, 0.20, 0.45, 1500.0, 10.0, 45.0, 0.030),
    ("wide-cnn", "resnet50", 0.90, 0.05, 0.60, 4200.0, 60.0, 102.0, 0.150),
    ("mobile-cnn", "mobilenet_v2_cifar", 0.40, 0.22, 0.40, 1700.0, 14.0, 14.0, 0.035),
    ("gan", "dcgan", 0.60, 0.15, 0.50, 2100.0, 12.0, 28.0, 0.060),
    ("encoder", "bert_base", 0.85, 0.08, 0.65, 6000.0, 110.0, 440.0, 0.180),
    ("translator", "transformer", 0.55, 0.18, 0.50, 2600.0, 20.0, 200.0, 0.080),
    ("recurrent", "lstm_lm", 0.70, 0.10, 0.55, 1900.0, 9.0, 114.0, 0.070),
    ("point-cloud", "pointnet", 0.15, 0.05, 0.25, 1300.0, 4.0, 14.0, 0.040),
    ("recommender", "neumf", 0.12, 0.03, 0.35, 1400.0, 1.0, 130.0, 0.010),
    ("policy-gradient", "ppo", 0.14, 0.02, 0.15, 1200.0, 0.5, 1.0, 0.015),
];

/// The catalogue.
pub fn synthetic() -> Profile {
    let round = |x: f64, digits: f64| (x * digits).round() / digits;
    let (mut workloads, mut solo) = (Vec::new(), BTreeMap::new());
    for (family, model, base, doubling, bandwidth, memory, sample, gradient, step) in FAMILIES {
        for (doublings, batch) in [(0.0, 32.0), (1.0, 64.0), (2.0, 128.0)] {
            let name = format!("{family}/b{batch}");
            let utilisation = round((base + doubling * doublings).min(1.0), 100.0);
            let mut draws = Stream::new(0, &format!("synthetic/{name}"));
            // Hidden: e of what it suffers, f of what it inflicts; the mean of their product is 1.
            let (e, f) = (0.6 * draws.normal(), 0.4 * draws.normal());
            let centre = (0.36 + 0.16) / 4.0;
            let suffers = libm::pow(utilisation, 1.144) * libm::exp(e - centre);
            let inflicts = 0.541 * libm::pow(utilisation, 1.292) * libm::exp(f - centre);
            solo.insert(
                name.clone(),
                Solo {
                    step_s: Some(round(step * (1.0 + 0.8 * doublings), 10_000.0)),
                    utilisation: Some(utilisation),
                    memory_utilisation: Some(round(utilisation * bandwidth, 1000.0)),
                    memory_mib: Some((memory + sample * (batch - 32.0)) as u32),
                    sensitivity: Some(round(suffers, 10_000.0)),
                    aggressiveness: Some(round(inflicts, 10_000.0)),
                    ..Solo::default()
                },
            );
            workloads.push(Workload {
                name,
                family: family.into(),
                batch: Some(batch),
                mixed_precision: false,
                gradient_mb: Some(gradient),
                communication: Ring::Ring,
                model: Some(model.into()),
                ..Workload::default()
            });
        }
    }
    let sources = [
        ("utilisation, memory_utilisation, memory_mib, step_s, gradient_mb", "assumed by us, not measured"),
        (
            "sensitivity, aggressiveness",
            "0.541 u^1.144 v^1.292 (fitted by us to Lucid's pairs, RTX 3090, ASPLOS 2023) times factors drawn from seed 0",
        ),
        ("noise", "spread of measured pairs around a fit S x A on an RTX 3090"),
    ];
    Profile {
        about: "a synthetic catalogue: assumed utilisations, a fitted law, hidden factors of our own".into(),
        workloads,
        gpus: vec![GpuProfile {
            kind: "RTX-3090".into(),
            mode: ShareMode::TimeSlice,
            sources: sources.into_iter().map(|(what, from)| (what.into(), from.into())).collect(),
            noise: vec![(0.6, 0.10), (0.75, 0.12), (0.9, 0.078), (1.01, 0.043)],
            solo,
            pairs: Vec::new(),
            measured: None,
        }],
    }
}
