//! How figures look on paper: what the command says, and what a project's style says.

use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::input;
use sandtable_report::plot::Paper;
use sandtable_results::metric::{self, Metric};

/// How a figure looks on paper.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Figures")]
pub(super) struct PaperArgs {
    /// Metric of the figures `policies`, `ranks` and `sweep` [default: jct-mean].
    #[arg(long, value_name = "METRIC")]
    pub(super) metric: Option<String>,
    /// File of what figures and tables look like [default: `style.ron` beside the spec, or in the nearest folder above it].
    #[arg(long, value_name = "FILE")]
    style: Option<PathBuf>,
    /// Width of the figure, such as `3.3in`, `8.5cm` or `240pt` [default: 10in].
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    width: Option<f64>,
    /// Height of the figure, with a legend below it [default: 0.47 of its width, or 0.62 where that is below 400pt].
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    height: Option<f64>,
    /// Font of the figure: a family, `serif`, `sans-serif`, or a file [default: sans-serif]. PDF and PNG need it to be on this
    /// machine.
    #[arg(long, value_name = "FONT")]
    font: Option<String>,
    /// Size of its words in points [default: 14, or 8 where the figure is narrower than 400pt].
    #[arg(long, value_name = "POINTS", value_parser = clap::value_parser!(u32).range(SIZES))]
    size: Option<u32>,
    /// Draw no title above the figure.
    #[arg(long)]
    no_title: bool,
    /// Tell lines apart without colour.
    #[arg(long)]
    grey_safe: bool,
    /// Draw the words of an SVG as outlines, so that it looks the same on machines that lack its font. This machine needs it.
    #[arg(long)]
    outlines: bool,
}

/// Sizes of words in points.
const SIZES: std::ops::RangeInclusive<i64> = 4..=72;

/// Points of 1/72 inch.
fn length(text: &str) -> Result<f64, String> {
    let units = [("in", 72.0), ("cm", 72.0 / 2.54), ("mm", 72.0 / 25.4), ("pt", 1.0)];
    let parsed = units.iter().find_map(|(unit, points)| {
        text.strip_suffix(unit).and_then(|number| number.trim().parse::<f64>().ok()).map(|number| number * points)
    });
    match parsed {
        Some(points) if (72.0..=7200.0).contains(&points) => Ok(points),
        Some(_) => Err("expected from 1in to 100in".into()),
        None => Err("expected a number and a unit: in, cm, mm or pt".into()),
    }
}

impl PaperArgs {
    /// What the project's style says of all that the command does not. The style is returned.
    pub(super) fn styled(&mut self, spec: &Path) -> Result<Style, Error> {
        let style = Style::of(self.style.as_deref(), spec)?;
        let points = |text: &Option<String>| text.as_deref().and_then(|text| length(text).ok());
        self.width = self.width.or_else(|| points(&style.width));
        self.height = self.height.or_else(|| points(&style.height));
        self.font = self.font.take().or_else(|| style.font.clone());
        self.size = self.size.or(style.size);
        self.no_title |= style.title == Some(false);
        self.grey_safe |= style.grey_safe == Some(true);
        self.outlines |= style.outlines == Some(true);
        Ok(style)
    }

    /// Whether anything was asked for.
    pub(super) fn is_asked(&self) -> bool {
        let lengths = [self.width, self.height];
        let words = [&self.metric, &self.font];
        lengths.iter().any(Option::is_some)
            || words.iter().any(|word| word.is_some())
            || self.size.is_some()
            || self.no_title
            || self.grey_safe
            || self.outlines
    }

    /// Whether words of an SVG are outlines.
    pub(super) fn outlines(&self) -> bool {
        self.outlines
    }

    pub(super) fn metric(&self) -> Result<&'static Metric, Error> {
        metric::named(self.metric.as_deref().unwrap_or("jct_mean_s"))
    }

    pub(super) fn paper(&self) -> Result<Paper, Error> {
        let width = self.width.unwrap_or(720.0);
        let narrow = width < 400.0;
        let height = self
            .height
            .unwrap_or_else(|| if self.width.is_none() { 340.0 } else { width * if narrow { 0.62 } else { 0.47 } });
        let size = self.size.unwrap_or(if narrow { 8 } else { 14 });
        // Less has no room for its axes.
        let least = f64::from(size) * 12.0;
        if height < least || width < least {
            let error =
                Error::usage(format!("a figure of {width} by {height} points has no room for words of {size} points"));
            return Err(error.hint(format!("at least {least} points each way, or a smaller --size")));
        }
        let font = self.font.clone().unwrap_or_else(|| "sans-serif".into());
        Ok(Paper { width, height, font, size, title: !self.no_title, grey: self.grey_safe })
    }
}

/// The name of a project's style.
const STYLE: &str = "style.ron";

/// What figures and tables of a project look like; what the command says comes first.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Style {
    width: Option<String>,
    height: Option<String>,
    font: Option<String>,
    size: Option<u32>,
    /// Whether titles are drawn.
    title: Option<bool>,
    grey_safe: Option<bool>,
    outlines: Option<bool>,
    /// Metrics of `.tex` tables.
    pub(super) columns: Vec<String>,
}

impl Style {
    /// The style that is asked for, or the nearest one above a spec.
    fn of(asked: Option<&Path>, spec: &Path) -> Result<Style, Error> {
        let above = || {
            let whole = std::fs::canonicalize(spec).ok()?;
            whole.ancestors().skip(1).map(|folder| folder.join(STYLE)).find(|file| file.is_file())
        };
        let Some(path) = asked.map(Path::to_path_buf).or_else(above) else { return Ok(Style::default()) };
        let text = input::text(&path, input::SPEC)?;
        let options = ron::Options::default().with_default_extension(ron::extensions::Extensions::IMPLICIT_SOME);
        let style: Style =
            options.from_str(&text).map_err(|error| Error::usage(format!("{}:{error}", path.display())))?;
        let wrong = |field: &str, why: String| Err(Error::usage(format!("{}: {field}: {why}", path.display())));
        for (field, value) in [("width", &style.width), ("height", &style.height)] {
            if let Some(Err(why)) = value.as_deref().map(length) {
                return wrong(field, why);
            }
        }
        for name in &style.columns {
            metric::named(name).map_err(|error| {
                let message = format!("{}: columns: {}", path.display(), error.message);
                Error { message, ..error }
            })?;
        }
        match style.size {
            Some(size) if !SIZES.contains(&i64::from(size)) => {
                wrong("size", format!("expected from {} to {} points, found {size}", SIZES.start(), SIZES.end()))
            }
            _ => Ok(style),
        }
    }
}
