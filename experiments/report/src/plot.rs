//! Figures as SVG: the only place that names kuva. Colours are the page's own (`var(--…)`), so that a figure follows its
//! theme, or fixed ones where it stands alone.

mod time;

use kuva::TickFormat;
use kuva::backend::svg::SvgBackend;
use kuva::plot::ForestPlot;
use kuva::prelude::{Layout, LinePlot, Plot, Theme, render_to_svg};
use kuva::render::layout::ComputedLayout;
use kuva::render::render::render_multiple;

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

impl FigureStyle {
    fn theme(self) -> Theme {
        let (ink, grid, ground, font) = match self {
            FigureStyle::Page => ("var(--ink)", "var(--grid)", "none", "inherit"),
            FigureStyle::Paper => ("#222222", "#dddddd", "white", "sans-serif"),
        };
        Theme {
            background: ground.into(),
            axis_color: ink.into(),
            grid_color: grid.into(),
            tick_color: ink.into(),
            text_color: ink.into(),
            legend_bg: ground.into(),
            legend_border: "none".into(),
            font_family: Some(font.into()),
            ..Theme::light()
        }
    }
}

/// Colours that colour-blind people tell apart (Okabe and Ito), a line after the other.
pub const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7a5c00", "#56b4e9", "#e69f00", "#555555"];

impl Figure {
    /// Whether there is anything to see.
    pub fn is_empty(&self) -> bool {
        self.lines.iter().all(|line| line.points.len() < 2)
    }

    /// The figure, 720 by 340.
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
    /// assert!(figure.svg(FigureStyle::Paper).contains("<svg"));
    /// ```
    pub fn svg(&self, dress: FigureStyle) -> String {
        let (width, height) = (720.0, 340.0);
        let mut plots: Vec<Plot> = Vec::new();
        for (at, line) in self.lines.iter().enumerate() {
            if line.points.is_empty() {
                continue;
            }
            let colour = match dress {
                FigureStyle::Page => format!("var(--s{})", at % COLOURS.len()),
                FigureStyle::Paper => COLOURS[at % COLOURS.len()].to_string(),
            };
            let plot = LinePlot::new().with_data(line.points.clone()).with_color(colour).with_stroke_width(1.8);
            // A page has its own legend, which a phone shows too.
            let plot = if dress == FigureStyle::Paper { plot.with_legend(&line.name) } else { plot };
            let plot = if self.steps { plot.with_step() } else { plot };
            let plot = match line.band.len() == line.points.len() {
                true => plot.with_band(
                    // What is drawn here is never below zero.
                    line.points.iter().zip(&line.band).map(|((_, y), half)| (y - half).max(0.0)),
                    line.points.iter().zip(&line.band).map(|((_, y), half)| y + half),
                ),
                false => plot,
            };
            // Beyond eight lines colours come again, dashed.
            plots.push(if at >= COLOURS.len() { plot.with_dashed() } else { plot }.into());
        }
        if plots.is_empty() {
            return String::new();
        }
        let mut layout = Layout::auto_from_plots(&plots)
            .with_width(width)
            .with_height(height)
            .with_x_label(&self.x)
            .with_y_label(&self.y)
            .with_theme(dress.theme());
        if self.time_x {
            // A mark's text is the number that it stands for, until it is replaced.
            let text = |x: f64| x.to_string();
            let least = self.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
            layout = layout
                .with_x_axis_min(least)
                .with_log_x()
                .with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(text)));
        }
        if let Some((least, most)) = self.y_range {
            layout = layout.with_y_axis_min(least).with_y_axis_max(most);
        }
        if dress == FigureStyle::Paper {
            // As large as it fits above the figure.
            let size = (1_150 / self.title.chars().count().max(1)).clamp(9, 16) as u32;
            layout = layout.with_title(&self.title).with_title_size(size).with_title_wrap(120);
        }
        if !self.time_x {
            return scaled(&render_to_svg(plots, layout), &self.title);
        }
        let axis = ComputedLayout::from_layout(&layout);
        let mut scene = render_multiple(plots, layout);
        time::marked(&mut scene, &axis);
        scaled(&SvgBackend.render_scene(&scene), &self.title)
    }
}

/// Figures on white paper, two beside each other.
pub fn side_by_side(figures: &[&Figure]) -> String {
    let (wide, high) = (720, 340);
    let (columns, rows) = (figures.len().min(2), figures.len().div_ceil(2));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{0}\" height=\"{1}\">",
        wide * columns,
        high * rows
    );
    for (at, figure) in figures.iter().enumerate() {
        let place = format!("<svg x=\"{}\" y=\"{}\" ", at % 2 * wide, at / 2 * high);
        out.push_str(&figure.svg(FigureStyle::Paper).replacen("<svg ", &place, 1));
    }
    out + "</svg>\n"
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
    pub fn svg(&self) -> String {
        let plot =
            self.rows.iter().fold(
                ForestPlot::new().with_color(COLOURS[0]).with_marker_size(4.0),
                |plot, (name, at, (from, to))| plot.with_row(name.as_str(), *at, *from, *to),
            );
        let plots: Vec<Plot> = vec![Plot::Forest(plot)];
        let layout = Layout::auto_from_plots(&plots)
            .with_width(1000.0)
            .with_height(110.0 + 22.0 * self.rows.len() as f64)
            .with_x_label(&self.x)
            .with_title(&self.title)
            .with_theme(FigureStyle::Paper.theme());
        scaled(&render_to_svg(plots, layout), &self.title)
    }
}

/// With a view box, so that it scales, and a name for screen readers.
fn scaled(svg: &str, title: &str) -> String {
    let Some((head, body)) = svg.split_once('>') else { return svg.to_string() };
    let number = |name: &str| {
        let from = head.find(&format!("{name}=\""))? + name.len() + 2;
        head[from..].split('"').next()
    };
    let (width, height) = (number("width").unwrap_or("720"), number("height").unwrap_or("340"));
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let body = clipped(body);
    format!("{head} viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{escaped}\">{body}")
}

/// Clip paths by the figure that they are of: kuva numbers them by how many it has drawn, and the figures of a page must not
/// share names.
fn clipped(body: &str) -> String {
    const NAME: &str = "kuva-clip-";
    let mut parts = body.split(NAME);
    let mut out = parts.next().unwrap_or_default().to_string();
    let mut seen: Vec<&str> = Vec::new();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let at = seen.iter().position(|known| *known == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        out.push_str(&format!("{NAME}{at}{rest}"));
    }
    let own: String = blake3::hash(out.as_bytes()).to_hex().chars().take(8).collect();
    out.replace(NAME, &format!("clip-{own}-"))
}

#[cfg(test)]
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
        let page = figure().svg(FigureStyle::Page);
        assert_eq!(page, figure().svg(FigureStyle::Page));
        assert!(page.starts_with("<svg") && page.contains("viewBox=\"0 0 ") && page.contains("var(--s1)"));
        assert!(page.contains("aria-label=\"a &lt; b\""));
        // Seconds from 1 to 10, and from 1 s to 10 d.
        let mut wide = figure();
        wide.lines[0].points = vec![(1.0, 0.1), (864_000.0, 1.0)];
        let wide = wide.svg(FigureStyle::Page);
        let at = |mark: &str| {
            let text = wide.split("<text ").find(|text| text.contains(&format!(">{mark}<"))).expect("a mark");
            text.split("x=\"").nth(1).and_then(|x| x.split('"').next()?.parse::<f64>().ok()).expect("a place")
        };
        let decade = at("10 s") - at("1 s");
        assert!(decade > 50.0 && (at("10 min") - at("1 min") - decade).abs() < 0.5, "{decade}");
        assert!((at("1 min") - at("10 s") - decade * 6f64.log10()).abs() < 0.5);
        assert!(!wide.contains(">100<") && !wide.contains(">1000<"));
        let paper = figure().svg(FigureStyle::Paper);
        assert!(!paper.contains("var(") && paper.contains(COLOURS[1]));
    }
}
