//! `sandtable predictor`.

use std::path::{Path, PathBuf};

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_hardware::{Profile, ShareMode};
use sandtable_inputs::profile;
use sandtable_plan::MAX_WEIGHTS;
use sandtable_plan::artifact::{Finder, predictors};
use sandtable_run::code;
use sandtable_run::learn::{
    Dataset, Measured, MemoryError, SoloError, Split, Training, cross_validate, evaluate, memory_errors, weights,
};
use sandtable_runtime::contract::Quantity;
use sandtable_runtime::limits::Limits;
use sandtable_runtime::sandbox::{Sandbox, SandboxedProvider};

use crate::ui;

/// Predictors.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum PredictorCommand {
    /// List the shipped predictors.
    List,
    /// Fit a predictor to a profile and write its weights.
    Train {
        /// iasp, iapp, bias, utilisation or forest.
        predictor: String,
        #[command(flatten)]
        data: Data,
        /// Fraction of the pairs that is observed.
        #[arg(long, default_value_t = 1.0, value_name = "PART")]
        observed: f64,
        /// Fraction of the workloads of which no pair is observed.
        #[arg(long, default_value_t = 0.0, value_name = "PART")]
        hold_out: f64,
        /// Use the weights on this type of GPU although they are fitted to another: `--gpu P100 --used-on
        /// V100`.
        #[arg(long, value_name = "KIND")]
        used_on: Option<String>,
        /// Seed of splits and initial weights.
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// Output file [default: standard output].
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Print a predictor's error on held-out data, next to its baselines.
    Evaluate {
        /// iasp, iapp, bias, utilisation, forest or memory.
        predictor: String,
        #[command(flatten)]
        data: Data,
        /// Fraction of the pairs that is observed, for `--split pairs`.
        #[arg(long, default_value = "0.8", value_delimiter = ',', value_name = "PART")]
        observed: Vec<f64>,
        /// What is held out.
        #[arg(long, value_enum, default_value_t)]
        split: Split,
        /// Number of known pairs of a held-out workload, for `--split workload`.
        #[arg(long, default_value = "0", value_delimiter = ',', value_name = "N")]
        probes: Vec<usize>,
        /// Number of seeds to average over.
        #[arg(long, default_value_t = 5, value_name = "N")]
        seeds: u64,
    },
}

/// What predictors are fitted to.
#[derive(Debug, clap::Args)]
pub(crate) struct Data {
    /// A profile: one of ours in RON, Gavel's `oracle_throughputs.json`, Lucid's folder, or GPUMemNet's
    /// `mlp_util_mem.csv`.
    #[arg(long, value_name = "PATH")]
    profile: PathBuf,
    /// Use only these types of GPU.
    #[arg(long = "gpu", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,
    /// Use what was measured on GPUs shared by MPS instead of time slices.
    #[arg(long)]
    mps: bool,
}

impl Data {
    fn read(&self) -> Result<Profile, Error> {
        let folder = self.profile.parent().unwrap_or(Path::new(""));
        let mut profile = sandtable_inputs::facts::fill(any_profile(&self.profile)?, folder)?;
        let mode = if self.mps { ShareMode::Mps } else { ShareMode::TimeSlice };
        profile.gpus.retain(|gpu| gpu.mode == mode);
        if profile.gpus.is_empty() {
            return Err(Error::usage(format!("{}: nothing was measured in {mode:?}", self.profile.display())));
        }
        Ok(profile)
    }
}

/// A profile in any form that we know, told by what it is.
pub(crate) fn any_profile(path: &Path) -> Result<Profile, Error> {
    match path.extension().and_then(|ending| ending.to_str()) {
        _ if path.is_dir() => profile::lucid(path),
        Some("json") => profile::gavel(path),
        Some("csv") => profile::gpumemnet(path),
        _ => profile::read(path),
    }
}

pub(crate) fn run(command: &PredictorCommand) -> Result<ExitCode, Error> {
    match command {
        PredictorCommand::List => list(),
        PredictorCommand::Train { predictor, data, observed, hold_out, used_on, seed, output } => {
            part(*observed)?;
            if !(0.0..1.0).contains(hold_out) {
                return Err(Error::usage(format!("expected a part from 0 up to 1 to hold out, found {hold_out}")));
            }
            let training = Training { observed: *observed, hold_out: *hold_out, seed: *seed, used_on: used_on.clone() };
            let weights = weights(predictor, &data.read()?, &data.kinds, &training)?;
            let text = serde_json::to_string(&weights).map_err(|error| Error::internal(error.to_string()))? + "\n";
            if text.len() > MAX_WEIGHTS {
                let message = format!("the weights have {} bytes, a file may have {MAX_WEIGHTS}", text.len());
                return Err(Error::usage(message).hint("fit fewer types of GPU: --gpu KIND"));
            }
            match output {
                Some(path) => {
                    output::write(path, &text)?;
                    ui::note(&format!("{} bytes written to {}", text.len(), path.display()));
                }
                None => ui::result(&text),
            }
            Ok(ExitCode::Done)
        }
        PredictorCommand::Evaluate { predictor, data, observed, split, probes, seeds } => {
            let profile = data.read()?;
            let all: Vec<String> = profile.gpus.iter().map(|gpu| gpu.kind.clone()).collect();
            if matches!(predictor.as_str(), "forest" | "memory") {
                let kinds = if data.kinds.is_empty() { &all } else { &data.kinds };
                return alone(predictor == "forest", &profile, kinds, *seeds);
            }
            let settings: Vec<(f64, usize)> = match split {
                Split::Pairs => observed.iter().map(|part| (*part, 0)).collect(),
                Split::Family => vec![(1.0, 0)],
                Split::Workload => probes.iter().map(|probes| (1.0, *probes)).collect(),
            };
            for kind in if data.kinds.is_empty() { &all } else { &data.kinds } {
                let dataset = Dataset::new(&profile, kind)?;
                for (observed, probes) in &settings {
                    part(*observed)?;
                    let what = match split {
                        Split::Pairs => format!("{} % of {} pairs observed", observed * 100.0, dataset.count()),
                        Split::Family => "each family held out".to_string(),
                        Split::Workload => format!("each workload held out but {probes} probes"),
                    };
                    ui::result(&format!("{kind}, {what}, {seeds} seeds: mean absolute error of the speed\n"));
                    for (name, mean, spread) in averaged(predictor, &dataset, *split, *observed, *probes, *seeds)? {
                        ui::result(&format!("  {name:<18}{mean:.4} ± {spread:.4}\n"));
                    }
                }
            }
            Ok(ExitCode::Done)
        }
    }
}

/// Errors of what is predicted of workloads alone.
fn alone(forest: bool, profile: &Profile, kinds: &[String], seeds: u64) -> Result<ExitCode, Error> {
    for kind in kinds {
        let data = Measured::new(profile, kind)?;
        if !forest {
            ui::result(&format!("{kind}, {} workloads: relative error of the memory\n", data.count()));
            for error in memory_errors(&data) {
                let MemoryError { formula, median, mean, under } = error;
                ui::result(&format!("  {formula:<10}median {median:.3}  mean {mean:.3}  too low {under:.3}\n"));
            }
            continue;
        }
        let what = "5-fold, quantised and pruned as in the file";
        ui::result(&format!("{kind}, {} workloads, {what}, {seeds} seeds: GPU utilisation\n", data.count()));
        let mut all: Vec<Vec<SoloError>> = Vec::new();
        for seed in 0..seeds.max(1) {
            all.push(cross_validate(&data, seed));
        }
        for (at, first) in all[0].iter().enumerate() {
            let of = |get: fn(&SoloError) -> f64| {
                let values: Vec<f64> = all.iter().map(|errors| get(&errors[at])).collect();
                sandtable_results::stats::mean_and_deviation(&values)
            };
            let (rmsle, mae, r2) = (of(|error| error.rmsle), of(|error| error.mae), of(|error| error.r2));
            ui::result(&format!(
                "  {:<10}RMSLE {:.4} ± {:.4}  MAE {:.2} points  R2 {:.3}\n",
                first.model, rmsle.0, rmsle.1, mae.0, r2.0
            ));
        }
    }
    Ok(ExitCode::Done)
}

fn part(observed: f64) -> Result<(), Error> {
    if observed > 0.0 && observed <= 1.0 {
        return Ok(());
    }
    Err(Error::usage(format!("--observed: expected a part above 0 and at most 1, found {observed}")))
}

/// Mean and standard deviation over the seeds, by model.
fn averaged(
    predictor: &str,
    data: &Dataset,
    split: Split,
    observed: f64,
    probes: usize,
    seeds: u64,
) -> Result<Vec<(String, f64, f64)>, Error> {
    let mut all: Vec<(String, Vec<f64>)> = Vec::new();
    for seed in 0..seeds.max(1) {
        for (name, error) in evaluate(predictor, data, split, observed, probes, seed)? {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, errors)) => errors.push(error),
                None => all.push((name, vec![error])),
            }
        }
    }
    let summary = |(name, errors): (String, Vec<f64>)| {
        let (mean, spread) = sandtable_results::stats::mean_and_deviation(&errors);
        (name, mean, spread)
    };
    Ok(all.into_iter().map(summary).collect())
}

fn list() -> Result<ExitCode, Error> {
    let sandbox = Sandbox::new(&code::settings(ui::note)).map_err(|fault| Error::internal(fault.to_string()))?;
    let mut finder = Finder::new(Path::new("."), None);
    for name in predictors() {
        let file = finder.find(name).map_err(Error::usage)?;
        let failed = |fault: sandtable_runtime::fault::Fault| Error::usage(format!("{name}: {fault}"));
        let component = sandbox.load_predictor(&file.bytes).map_err(failed)?;
        let described = SandboxedProvider::new(&component, Limits::default()).and_then(|mut made| made.describe());
        let descriptor = described.map_err(failed)?;
        let is_answered =
            |quantity: &Quantity| quantity.answers().is_some_and(|flag| descriptor.answers.contains(flag));
        let answers: Vec<&str> = Quantity::ALL.into_iter().filter(is_answered).map(Quantity::name).collect();
        let line = format!("{name:<12} {}  {} ({})\n", &file.digest[..10], descriptor.about, answers.join(", "));
        ui::result(&line);
    }
    Ok(ExitCode::Done)
}
