//! Figures drawn by kuva.

mod time;

use kuva::TickFormat;
use kuva::backend::svg::SvgBackend;
use kuva::plot::ForestPlot;
use kuva::prelude::{Layout, LinePlot, Plot, Theme, render_to_svg};
use kuva::render::layout::ComputedLayout;
use kuva::render::render::render_multiple;

use sandtable_core::error::Error;

use super::{COLOURS, Figure, FigureStyle, Forest};

fn theme(style: FigureStyle) -> Theme {
    let (ink, grid, ground, font) = match style {
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

pub(super) fn figure(figure: &Figure, style: FigureStyle) -> Result<String, Error> {
    let (width, height) = (720.0, 340.0);
    let mut plots: Vec<Plot> = Vec::new();
    for (at, line) in figure.lines.iter().enumerate() {
        if line.points.is_empty() {
            continue;
        }
        let colour = match style {
            FigureStyle::Page => format!("var(--s{})", at % COLOURS.len()),
            FigureStyle::Paper => COLOURS[at % COLOURS.len()].to_string(),
        };
        let plot = LinePlot::new().with_data(line.points.clone()).with_color(colour).with_stroke_width(1.8);
        // A page has its own legend, which a phone shows too.
        let plot = if style == FigureStyle::Paper { plot.with_legend(&line.name) } else { plot };
        let plot = if figure.steps { plot.with_step() } else { plot };
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
        return Ok(String::new());
    }
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(width)
        .with_height(height)
        .with_x_label(&figure.x)
        .with_y_label(&figure.y)
        .with_theme(theme(style));
    if figure.time_x {
        // A mark's text is the number that it stands for, until it is replaced.
        let text = |x: f64| x.to_string();
        let least = figure.lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).fold(f64::INFINITY, f64::min);
        layout = layout
            .with_x_axis_min(least)
            .with_log_x()
            .with_x_tick_format(TickFormat::Custom(std::sync::Arc::new(text)));
    }
    if let Some((least, most)) = figure.y_range {
        layout = layout.with_y_axis_min(least).with_y_axis_max(most);
    }
    if style == FigureStyle::Paper {
        // As large as it fits above the figure.
        let size = (1_150 / figure.title.chars().count().max(1)).clamp(9, 16) as u32;
        layout = layout.with_title(&figure.title).with_title_size(size).with_title_wrap(120);
    }
    if !figure.time_x {
        return Ok(scaled(&render_to_svg(plots, layout), &figure.title));
    }
    let axis = ComputedLayout::from_layout(&layout);
    let mut scene = render_multiple(plots, layout);
    time::marked(&mut scene, &axis);
    Ok(scaled(&SvgBackend.render_scene(&scene), &figure.title))
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
        .with_theme(theme(FigureStyle::Paper));
    Ok(scaled(&render_to_svg(plots, layout), &forest.title))
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
