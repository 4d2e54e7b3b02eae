//! Figures as SVG; `draw` is the only place that names kuva. Colours are the page's own (`var(--…)`), so that a figure follows its
//! theme, or fixed ones where it stands alone.

#[cfg(feature = "plots")]
mod draw;
#[cfg(not(feature = "plots"))]
#[path = "plot/none.rs"]
mod draw;

use sandtable_core::error::Error;

/// Whether this build draws figures: the feature `plots`.
pub const DRAWS: bool = cfg!(feature = "plots");

/// One line of a figure.
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, f64)>,
    /// Half the interval around each point; empty: no band.
    pub band: Vec<f64>,
}

/// A figure of lines.
pub struct Figure {
    /// A name for anchors and files.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// Under the axis.
    pub x: String,
    /// Beside the axis.
    pub y: String,
    /// Whether values hold until the next one.
    pub steps: bool,
    /// Whether the axis counts by factors, in seconds with marks such as 10 s, 1 min, 1 h and 1 d.
    pub time_x: bool,
    /// Where the values begin and end, if that is known beforehand.
    pub y_range: Option<(f64, f64)>,
    /// Its lines, in the order of the policies.
    pub lines: Vec<Line>,
}

/// How a figure is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FigureStyle {
    /// By the page around it.
    Page,
    /// By itself, on white paper.
    Paper,
}

/// Colours that colour-blind people tell apart (Okabe and Ito), a line after the other.
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#e69f00", "#555555"];

impl Figure {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.len() < 2)
    }

    /// The figure as SVG, 720 by 340; empty if no line has a point.
    ///
    /// ```
    /// use sandtable_report::plot::{Figure, FigureStyle, Line};
    ///
    /// let line = Line { name: "fifo".into(), points: vec![(0.0, 1.0), (60.0, 0.5)], band: Vec::new() };
    /// let figure = Figure {
    ///     id: "jobs".into(),
    ///     title: "Jobs that wait".into(),
    ///     x: "seconds".into(),
    ///     y: "jobs".into(),
    ///     steps: false,
    ///     time_x: false,
    ///     y_range: None,
    ///     lines: vec![line],
    /// };
    /// assert!(figure.svg(FigureStyle::Paper)?.contains("<svg"));
    /// # Ok::<(), sandtable_core::error::Error>(())
    /// ```
    ///
    /// # Errors
    /// A build without the feature `plots`.
    pub fn svg(&self, style: FigureStyle) -> Result<String, Error> {
        draw::figure(self, style)
    }
}

/// Figures on white paper, two beside each other.
///
/// # Errors
/// A build without the feature `plots`.
pub fn side_by_side(figures: &[&Figure]) -> Result<String, Error> {
    let (wide, high) = (720, 340);
    let (columns, rows) = (figures.len().min(2), figures.len().div_ceil(2));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{0}\" height=\"{1}\">",
        wide * columns,
        high * rows
    );
    for (at, figure) in figures.iter().enumerate() {
        let place = format!("<svg x=\"{}\" y=\"{}\" ", at % 2 * wide, at / 2 * high);
        out.push_str(&figure.svg(FigureStyle::Paper)?.replacen("<svg ", &place, 1));
    }
    Ok(out + "</svg>\n")
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

#[cfg(all(test, feature = "plots"))]
mod tests {
    use super::*;

    fn figure() -> Figure {
        let line = |name: &str| Line { name: name.into(), points: vec![(1.0, 0.5), (10.0, 1.0)], band: vec![0.1, 0.1] };
        let (x, y) = ("s".into(), "part".into());
        Figure {
            id: "f".into(),
            title: "a < b".into(),
            x,
            y,
            steps: true,
            time_x: true,
            y_range: Some((0.0, 1.0)),
            lines: vec![line("one"), line("two")],
        }
    }

    #[test]
    fn figures_are_the_same_every_time_scale_and_follow_their_page() {
        let svg = |figure: &Figure, style| figure.svg(style).expect("a build that draws");
        let page = svg(&figure(), FigureStyle::Page);
        assert_eq!(page, svg(&figure(), FigureStyle::Page));
        assert!(page.starts_with("<svg") && page.contains("viewBox=\"0 0 ") && page.contains("var(--s1)"));
        assert!(page.contains("aria-label=\"a &lt; b\""));
        // Seconds from 1 to 10, and from 1 s to 10 d.
        let mut wide = figure();
        wide.lines[0].points = vec![(1.0, 0.1), (864_000.0, 1.0)];
        let wide = svg(&wide, FigureStyle::Page);
        let at = |mark: &str| {
            let text = wide.split("<text ").find(|text| text.contains(&format!(">{mark}<"))).expect("a mark");
            text.split("x=\"").nth(1).and_then(|x| x.split('"').next()?.parse::<f64>().ok()).expect("a place")
        };
        let decade = at("10 s") - at("1 s");
        assert!(decade > 50.0 && (at("10 min") - at("1 min") - decade).abs() < 0.5, "{decade}");
        assert!((at("1 min") - at("10 s") - decade * 6f64.log10()).abs() < 0.5);
        assert!(!wide.contains(">100<") && !wide.contains(">1000<"));
        let paper = svg(&figure(), FigureStyle::Paper);
        assert!(!paper.contains("var(") && paper.contains(COLOURS[1]));
    }
}
