//! `sandtable hardware profile`.

use std::path::PathBuf;

use sandtable_core::error::{Error, ExitCode};
use sandtable_core::output;
use sandtable_hardware::Duration;
use sandtable_run::measure::{MeasurePlan, measure};

use crate::ui;

/// What to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileArgs {
    /// Output file of the profile.
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    how: HowArgs,
}

/// How it is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct HowArgs {
    /// Measure only these families [default: all that the device runs].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    families: Vec<String>,
    /// UUID of the device [default: the first].
    #[arg(long, value_name = "UUID", conflicts_with = "stand_in")]
    device: Option<String>,
    /// Measure a CPU core that stands in for a GPU.
    #[arg(long)]
    stand_in: bool,
    /// Share the device through the MPS server with pipes in this folder [default: jobs take turns].
    #[arg(long, value_name = "DIR", conflicts_with = "stand_in")]
    mps: Option<PathBuf>,
    /// Time to measure each combination.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = sandtable_core::units::span)]
    measure: Duration,
    /// Time to wait before each measurement.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = sandtable_core::units::span)]
    settle: Duration,
    /// Number of measurements of each pair, in alternating order.
    #[arg(long, value_name = "N", default_value_t = 2)]
    repeats: u32,
    /// Seed of the order of measurements.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

impl HowArgs {
    pub(crate) fn plan(&self, families: &[String]) -> Result<MeasurePlan, Error> {
        let families = if self.families.is_empty() { families.to_vec() } else { self.families.clone() };
        if !(Duration::from_millis(200)..=Duration::from_secs(10)).contains(&self.measure) || self.repeats < 2 {
            let message = "expected to measure for 200ms to 10s, and pairs at least twice: once says nothing of noise";
            return Err(Error::usage(message));
        }
        Ok(MeasurePlan {
            families,
            device: self.device.clone(),
            stand_in: self.stand_in,
            mps: self.mps.clone(),
            measure: self.measure,
            settle: self.settle,
            repeats: self.repeats,
            seed: self.seed,
        })
    }
}

pub(crate) fn run(args: &ProfileArgs) -> Result<ExitCode, Error> {
    let plan = args.how.plan(&[])?;
    // Minutes of measuring are not for a folder that is not there.
    output::check(&args.output)?;
    let measured = measure(&plan, &|line| ui::note(line))?;
    output::write(&args.output, &measured.text)?;
    ui::result(&measured.table());
    ui::note(&format!("{}: {} ({} bytes)", args.output.display(), measured.digest, measured.text.len()));
    Ok(ExitCode::Done)
}
