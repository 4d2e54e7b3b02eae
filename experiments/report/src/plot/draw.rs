//! Figures drawn by kuva.

mod legend;
mod print;
mod time;

use kuva::TickFormat;
use kuva::backend::svg::SvgBackend;
use kuva::plot::{ForestPlot, LegendPosition, LineStyle, MarkerShape};
use kuva::prelude::{Layout, LinePlot, Plot, ScatterPlot, Theme, render_to_svg};
use kuva::render::layout::ComputedLayout;
use kuva::render::render::render_multiple;

use sandtable_core::display::Unit;
use sandtable_core::error::Error;

use super::{Axis, COLOURS, Figure, Forest, Line, Paper};

pub(in crate::plot) use print::{outlined, pdf, png};

/// Lines in black and white, a line after the other: the darkest first.
const GREYS: [&str; 4] = ["#000000", "#666666", "#333333", "#999999"];

/// The size of words for which figures are laid out, and the width below which a legend stands below its figure.
const SIZE: u32 = 14;
const NARROW: f64 = 600.0;

/// Marks of lines and places.
const MARKS: [MarkerShape; 8] = [
    MarkerShape::Circle,
    MarkerShape::Square,
    MarkerShape::Triangle,
    MarkerShape::Diamond,
    MarkerShape::TriangleDown,
    MarkerShape::Plus,
    MarkerShape::Star,
    MarkerShape::Cross,
];

/// How the lines of a figure are broken.
fn dash(at: usize) -> LineStyle {
    match at % 6 {
        0 => LineStyle::Solid,
        1 => LineStyle::Custom("8 4".into()),
        2 => LineStyle::Custom("2 3".into()),
        3 => LineStyle::Custom("10 3 2 3".into()),
        4 => LineStyle::Custom("5 2".into()),
        _ => LineStyle::Custom("12 4 2 4 2 4".into()),
    }
}

fn theme(font: &str) -> Theme {
    Theme {
        background: "white".into(),
        axis_color: "#222222".into(),
        grid_color: "#dddddd".into(),
        tick_color: "#222222".into(),
        text_color: "#222222".into(),
        legend_bg: "white".into(),
        legend_border: "none".into(),
        font_family: Some(font.into()),
        ..Theme::light()
    }
}

/// What values are divided by, so that people can read them, and what they are called then.
fn readable(values: impl Iterator<Item = f64>) -> (f64, &'static str) {
    match values.fold(0.0, |most: f64, value| most.max(value.abs())) {
        s if s < 600.0 => (1.0, "s"),
        s if s < 36_000.0 => (60.0, "min"),
        s if s < 864_000.0 => (3600.0, "h"),
        _ => (86_400.0, "d"),
    }
}

/// The figure in units that people read, and what stands at its axes.
fn scaled(figure: &Figure) -> (Figure, String, String) {
    let mut out = figure.clone();
    let (mut x, mut y) = (figure.x.clone(), figure.y.clone());
    if matches!(figure.axis, Axis::Seconds(_)) {
        let (scale, unit) = readable(figure.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x));
        out.lines.iter_mut().flat_map(|line| &mut line.points).for_each(|(x, _)| *x /= scale);
        x = format!("{x} ({unit})");
    }
    if figure.unit == Unit::Seconds {
        let (scale, unit) = readable(figure.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y));
        for line in &mut out.lines {
            line.points.iter_mut().chain(&mut line.runs).for_each(|(_, y)| *y /= scale);
            line.half.iter_mut().for_each(|half| *half /= scale);
        }
        y = format!("{y} ({unit})");
    }
    (out, x, y)
}

pub(super) fn figure(figure: &Figure, paper: &Paper) -> Result<String, Error> {
    let (figure, x, y) = scaled(figure);
    let plots = plots(&figure, paper);
    if plots.is_empty() {
        return Ok(String::new());
    }
    // Laid out for words of one size, then scaled to the size that is asked for.
    let scale = f64::from(paper.size) / f64::from(SIZE);
    let (width, height) = (paper.width / scale, paper.height / scale);
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(width)
        .with_height(height)
        .with_x_label(&x)
        .with_y_label(&y)
        .with_y_label_wrap((height / 10.0) as usize)
        .with_theme(theme(&paper.font));
    if width < NARROW {
        layout = layout.with_legend_position(LegendPosition::OutsideBottomColumns);
    }
    match &figure.axis {
        Axis::LogSeconds | Axis::Log => {
            let least =
                figure.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
            layout = layout.with_x_axis_min(least).with_log_x();
            if figure.axis == Axis::LogSeconds {
                // A mark's text is the number that it stands for, until it is replaced.
                let text = |x: f64| x.to_string();
                layout = layout.with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(text)));
            }
        }
        Axis::Names(names) => {
            // Places are numbers with names; half a place is left at each end.
            let named = names.clone();
            // Names below each other need a line each: of more than there is room for, each so often one.
            let each = (names.len() as f64 * f64::from(SIZE) * 1.2 / (width * 0.75)).ceil().max(1.0) as usize;
            let text = move |x: f64| match x == x.round() && x >= 0.0 && (x as usize).is_multiple_of(each) {
                true => named.get(x as usize).cloned().unwrap_or_default(),
                false => String::new(),
            };
            layout = layout
                .with_x_axis_min(-0.5)
                .with_x_axis_max(names.len() as f64 - 0.5)
                .with_x_tick_step(1.0)
                .with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(text)));
            let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
            if (longest * names.len()) as f64 * f64::from(SIZE) * 0.6 > width * 0.75 {
                layout = layout.with_x_tick_rotate(-40.0);
            }
        }
        Axis::Linear | Axis::Seconds(_) => {}
    }
    if let Some((least, most)) = figure.y_range {
        layout = layout.with_y_axis_min(least).with_y_axis_max(most);
    }
    if paper.title {
        // As large as it fits above the figure.
        let heading = figure.heading();
        let size = (width * 1.6 / heading.chars().count().max(1) as f64) as u32;
        layout = layout.with_title(&heading).with_title_size(size.clamp(9, 16)).with_title_wrap(120);
    }
    Ok(sized(&drawn(&figure, paper, plots, layout), &figure.heading(), scale))
}

/// The plots with the marks of their axis and in their legend.
fn drawn(figure: &Figure, paper: &Paper, plots: Vec<Plot>, layout: Layout) -> String {
    let axis = ComputedLayout::from_layout(&layout);
    let mut scene = render_multiple(plots, layout);
    if figure.axis == Axis::LogSeconds {
        time::marked(&mut scene, &axis);
    }
    if !matches!(figure.axis, Axis::Names(_)) {
        let lines = figure.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty());
        let lines: Vec<_> = lines.map(|(at, _)| look(at, paper)).collect();
        legend::marked(&mut scene, &lines, STROKE * 1.7);
    }
    SvgBackend.render_scene(&scene)
}

/// Width of lines.
const STROKE: f64 = 1.8;

/// The colour and the mark of a line by its number.
fn look(at: usize, paper: &Paper) -> (&'static str, MarkerShape) {
    let colour = if paper.grey { GREYS[at % GREYS.len()] } else { COLOURS[at % COLOURS.len()] };
    (colour, MARKS[at % MARKS.len()])
}

fn plots(figure: &Figure, paper: &Paper) -> Vec<Plot> {
    let mut plots: Vec<Plot> = Vec::new();
    let count = figure.lines.len();
    for (at, line) in figure.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()) {
        let (colour, mark) = look(at, paper);
        if let Axis::Names(names) = &figure.axis {
            plots.extend(at_names(line, (at, count), names, (colour, mark)));
            continue;
        }
        let plot = LinePlot::new()
            .with_data(line.points.clone())
            .with_color(colour)
            .with_stroke_width(STROKE)
            .with_line_style(dash(at))
            .with_legend(&line.name);
        let plot = if figure.steps { plot.with_step() } else { plot };
        let plot = match line.half.len() == line.points.len() {
            true => plot.with_band(
                // What is drawn here is never below zero.
                line.points.iter().zip(&line.half).map(|((_, y), half)| (y - half).max(0.0)),
                line.points.iter().zip(&line.half).map(|((_, y), half)| y + half),
            ),
            false => plot,
        };
        plots.push(plot.into());
        // A mark each so often, where it differs from those of other lines.
        let step = (line.points.len() / 7).max(1);
        let few = line.points.iter().enumerate().filter(|(index, _)| (index + step * at / count).is_multiple_of(step));
        let few: Vec<(f64, f64)> = few.map(|(_, point)| *point).collect();
        plots.push(
            ScatterPlot::new().with_data(few).with_color(colour).with_size(STROKE * 2.0).with_marker(mark).into(),
        );
    }
    plots
}

/// The values of a policy at names: where several policies have one there, a little beside each other.
fn at_names(
    line: &Line,
    (at, count): (usize, usize),
    names: &[String],
    (colour, mark): (&str, MarkerShape),
) -> Vec<Plot> {
    // Each policy at its own name: in the middle of it.
    let alone = names.get(at) == Some(&line.name) && line.points.len() == 1;
    let beside = if alone || count < 2 { 0.0 } else { (at as f64 / (count - 1) as f64 - 0.5) * 0.6 };
    let half = |index: usize| line.half.get(index).copied().unwrap_or(0.0);
    let points: Vec<(f64, f64)> = line.points.iter().map(|(x, y)| (x + beside, *y)).collect();
    let marks = ScatterPlot::new()
        .with_data(points.clone())
        .with_y_err((0..points.len()).map(half))
        .with_color(colour)
        .with_size(STROKE * 2.6)
        .with_marker(mark);
    let mut out: Vec<Plot> = vec![if alone { marks.into() } else { marks.with_legend(&line.name).into() }];
    if !line.runs.is_empty() {
        let spread = 0.3 / line.runs.len() as f64;
        let runs = line.runs.iter().enumerate().map(|(run, (x, y))| (x + beside + 0.1 + spread * run as f64, *y));
        let runs = ScatterPlot::new().with_data(runs.collect::<Vec<_>>()).with_color(colour).with_size(STROKE * 1.3);
        out.push(runs.with_marker_opacity(0.5).into());
    }
    out
}

pub(super) fn forest(forest: &Forest) -> Result<String, Error> {
    let plot = forest
        .rows
        .iter()
        .fold(ForestPlot::new().with_color(COLOURS[0]).with_marker_size(4.0), |plot, (name, at, (from, to))| {
            plot.with_row(name.as_str(), *at, *from, *to)
        });
    let plots: Vec<Plot> = vec![Plot::Forest(plot)];
    let layout = Layout::auto_from_plots(&plots)
        .with_width(1000.0)
        .with_height(110.0 + 22.0 * forest.rows.len() as f64)
        .with_x_label(&forest.x)
        .with_title(&forest.title)
        .with_theme(theme("sans-serif"));
    Ok(sized(&render_to_svg(plots, layout), &forest.title, 1.0))
}

/// With a view box, so that it scales, its size in points, and a name for screen readers.
fn sized(svg: &str, title: &str, scale: f64) -> String {
    let Some((head, body)) = svg.split_once('>') else { return svg.to_string() };
    let number = |name: &str| {
        let from = head.find(&format!(" {name}=\""))? + name.len() + 3;
        head[from..].split('"').next()
    };
    let (width, height) = (number("width").unwrap_or("720"), number("height").unwrap_or("340"));
    let scaled = |size: &str| (size.parse::<f64>().unwrap_or(0.0) * scale * 100.0).round() / 100.0;
    let points = |name: &str, size: &str| (format!(" {name}=\"{size}\""), format!(" {name}=\"{}pt\"", scaled(size)));
    let ((wide, wide_points), (high, high_points)) = (points("width", width), points("height", height));
    let escaped = title.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let view = format!(" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{escaped}\">");
    let head = head.replacen(&wide, &wide_points, 1).replacen(&high, &high_points, 1);
    format!("{head}{view}{}", clipped(body))
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
        let line = |name: &str| Line {
            name: name.into(),
            points: vec![(1.0, 0.5), (10.0, 1.0)],
            half: vec![0.1, 0.1],
            runs: Vec::new(),
        };
        let (x, y) = ("s".into(), "part".into());
        Figure {
            id: "f".into(),
            title: "a < b".into(),
            at: String::new(),
            x,
            y,
            axis: Axis::LogSeconds,
            unit: Unit::Times,
            steps: true,
            part: true,
            y_range: Some((0.0, 1.0)),
            lines: vec![line("one"), line("two")],
        }
    }

    #[test]
    fn figures_are_the_same_every_time_and_marked_by_units_that_people_read() {
        let svg = |figure: &Figure| super::figure(figure, &Paper::default()).expect("a build that draws");
        let page = svg(&figure());
        assert_eq!(page, svg(&figure()));
        assert!(page.starts_with("<svg") && page.contains("viewBox=\"0 0 ") && page.contains(COLOURS[1]));
        assert!(page.contains("width=\"720pt\"") && page.contains("aria-label=\"a &lt; b\""));
        // Samples of lines in the legend have their marks: a circle, and a square, which is a rectangle in the data. The other path is a band.
        let filled = |colour: &str| {
            let of = format!("fill=\"{colour}\"");
            page.split("<path").filter(|path| path.split('>').next().is_some_and(|path| path.contains(&of))).count()
        };
        assert_eq!((page.matches("a3.06,3.06").count(), filled(COLOURS[1])), (2, 2), "{page}");
        // Seconds from 1 to 10, and from 1 s to 10 d.
        let mut wide = figure();
        wide.lines[0].points = vec![(1.0, 0.1), (864_000.0, 1.0)];
        let wide = svg(&wide);
        let at = |mark: &str| {
            let text = wide.split("<text ").find(|text| text.contains(&format!(">{mark}<"))).expect("a mark");
            text.split("x=\"").nth(1).and_then(|x| x.split('"').next()?.parse::<f64>().ok()).expect("a place")
        };
        let decade = at("10 s") - at("1 s");
        assert!(decade > 50.0 && (at("10 min") - at("1 min") - decade).abs() < 0.5, "{decade}");
        assert!((at("1 min") - at("10 s") - decade * 6f64.log10()).abs() < 0.5);
        assert!(!wide.contains(">100<") && !wide.contains(">1000<"));
    }

    #[test]
    fn paper_says_how_wide_which_font_and_that_there_is_no_colour() {
        let paper = Paper { width: 237.6, height: 150.0, font: "Times".into(), size: 8, title: false, grey: true };
        let svg = super::figure(&figure(), &paper).expect("a build that draws");
        assert!(svg.contains("width=\"237.6pt\"") && svg.contains("Times") && !svg.contains(">a &lt; b<"));
        assert!(COLOURS.iter().all(|colour| !svg.contains(colour)) && svg.contains(GREYS[1]));
    }
}
