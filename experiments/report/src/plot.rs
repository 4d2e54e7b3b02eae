//! Figures for a paper, as SVG, PDF and PNG; `draw` is the only place that names kuva.

#[cfg(feature = "plots")]
mod draw;
#[cfg(not(feature = "plots"))]
#[path = "plot/none.rs"]
mod draw;

use sandtable_core::display::Unit;
use sandtable_core::error::Error;
use sandtable_results::stats::Estimate;

/// Whether this build draws figures: the feature `plots`.
pub const DRAWS: bool = cfg!(feature = "plots");

/// One line of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Half the interval around each point, 0 where there is none; empty: no point has one.
    pub half: Vec<f64>,
    /// Single runs, of which the points are means.
    pub runs: Vec<(f64, f64)>,
}

/// What the places on the axis at the bottom are.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Numbers.
    Linear,
    /// Numbers above 0, by factors.
    Log,
    /// Seconds, since this second of UTC where dates are known.
    Seconds(Option<f64>),
    /// Seconds above 0, by factors, with marks such as 10 s, 1 min, 1 h and 1 d.
    LogSeconds,
    /// Places in this list.
    Names(Vec<String>),
}

/// A figure of lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// A name for anchors and files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// The point of the sweep that it is of, as its title ends: `, at load=0.6`; empty where nothing is swept.
    pub at: String,
    /// Under the axis.
    pub x: String,
    /// Beside the axis.
    pub y: String,
    /// What the places are.
    pub axis: Axis,
    /// What the values are counted in.
    pub unit: Unit,
    /// Whether values hold until the next one.
    pub steps: bool,
    /// Whether it is a distribution function: then it has a tail.
    pub part: bool,
    /// Where the values begin and end, if that is known beforehand.
    pub y_range: Option<(f64, f64)>,
    /// Its lines, in the order of the policies.
    pub lines: Vec<Line>,
}

/// How a figure looks on paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// Width in points of 1/72 inch.
    pub width: f64,
    /// Height in points, without the legend where that stands below.
    pub height: f64,
    /// Family of the font.
    pub font: String,
    /// Size of the words beside the axes in points; everything else scales with it.
    pub size: u32,
    /// Whether its title stands above it.
    pub title: bool,
    /// Whether lines are told apart in black and white.
    pub grey: bool,
}

impl Default for Paper {
    fn default() -> Self {
        Paper { width: 720.0, height: 340.0, font: "sans-serif".into(), size: 14, title: true, grey: false }
    }
}

/// Colours that colour-blind people tell apart (Okabe and Ito), a line after the other.
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#e69f00", "#555555"];

impl Line {
    /// A line of means, each with its interval where that is known.
    pub fn of_estimates(name: &str, estimates: &[(f64, Estimate)]) -> Line {
        Line {
            name: name.to_string(),
            points: estimates.iter().map(|(x, one)| (*x, one.mean)).collect(),
            half: estimates.iter().map(|(_, one)| if one.half.is_finite() { one.half } else { 0.0 }).collect(),
            runs: Vec::new(),
        }
    }
}

impl Figure {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        match self.axis {
            Axis::Names(_) => self.lines.iter().all(|line| line.points.is_empty()),
            _ => self.lines.iter().all(|line| line.points.len() < 2),
        }
    }

    /// Its title, with the point of the sweep that it is of.
    pub fn heading(&self) -> String {
        format!("{}{}", self.title, self.at)
    }

    /// The figure as SVG; empty if no line has a point.
    ///
    /// ```
    /// use sandtable_core::display::Unit;
    /// use sandtable_report::plot::{Axis, Figure, Line, Paper};
    ///
    /// let line = Line { name: "fifo".into(), points: vec![(0.0, 1.0), (60.0, 0.5)], ..Line::default() };
    /// let figure = Figure {
    ///     id: "jobs".into(),
    ///     title: "Jobs that wait".into(),
    ///     at: String::new(),
    ///     x: "time".into(),
    ///     y: "jobs".into(),
    ///     axis: Axis::Seconds(None),
    ///     unit: Unit::Count,
    ///     steps: false,
    ///     part: false,
    ///     y_range: None,
    ///     lines: vec![line],
    /// };
    /// assert!(figure.svg(&Paper::default())?.contains("<svg"));
    /// # Ok::<(), sandtable_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A build without the feature `plots`.
    pub fn svg(&self, paper: &Paper) -> Result<String, Error> {
        draw::figure(self, paper)
    }
}

/// Figures on white paper, two beside each other.
///
/// # Errors
/// A build without the feature `plots`.
pub fn side_by_side(figures: &[&Figure], paper: &Paper) -> Result<String, Error> {
    let (wide, high) = (paper.width, paper.height);
    let (columns, rows) = (figures.len().min(2) as f64, figures.len().div_ceil(2) as f64);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}pt\" height=\"{1}pt\">",
        wide * columns,
        high * rows
    );
    for (at, figure) in figures.iter().enumerate() {
        let place = format!("<svg x=\"{}\" y=\"{}\" ", (at % 2) as f64 * wide, (at / 2) as f64 * high);
        let inner = figure.svg(paper)?.replacen("<svg ", &place, 1);
        // Within another its size is counted as the other's.
        let sized = |name: &str, size: f64| (format!("{name}=\"{size}pt\""), format!("{name}=\"{size}\""));
        let ((width, own_width), (height, own_height)) = (sized("width", wide), sized("height", high));
        out.push_str(&inner.replacen(&width, &own_width, 1).replacen(&height, &own_height, 1));
    }
    Ok(out + "</svg>\n")
}

/// A drawing as PDF, its fonts embedded.
///
/// # Errors
/// A build without the feature `plots`; a font that this machine does not have.
pub fn pdf(svg: &str, font: &str) -> Result<Vec<u8>, Error> {
    draw::pdf(svg, font)
}

/// A drawing as SVG whose words are outlines: it looks the same where its font is missing.
///
/// # Errors
/// A build without the feature `plots`; a font that this machine does not have.
pub fn outlined(svg: &str, font: &str) -> Result<String, Error> {
    draw::outlined(svg, font)
}

/// A drawing as PNG, with 300 dots an inch.
///
/// # Errors
/// A build without the feature `plots`; a font that this machine does not have.
pub fn png(svg: &str, font: &str) -> Result<Vec<u8>, Error> {
    draw::png(svg, font)
}

/// Figures with their intervals, a row each, beside a line at zero.
pub struct Forest {
    /// What it shows.
    pub title: String,
    /// Under the axis.
    pub x: String,
    /// From top to bottom: a name, the figure, and its interval.
    pub rows: Vec<(String, f64, (f64, f64))>,
}

impl Forest {
    /// The figure on white paper, 1000 wide.
    ///
    /// # Errors
    /// A build without the feature `plots`.
    pub fn svg(&self) -> Result<String, Error> {
        draw::forest(self)
    }
}
