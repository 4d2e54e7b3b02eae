//! Axes of time that count by factors, with the marks that people read: 10 s, 1 min, 1 h, 1 d.

use kuva::render::layout::ComputedLayout;
use kuva::render::render::{Primitive, Scene, TextAnchor};

const MINUTE: f64 = 60.0;
const HOUR: f64 = 3600.0;
const DAY: f64 = 86_400.0;

/// Marks, seconds, and whether it is one of the coarse ones, which suffice where four of them lie on the axis.
const MARKS: &[(f64, &str, bool)] = &[
    (0.001, "1 ms", true),
    (0.01, "10 ms", true),
    (0.1, "0.1 s", true),
    (1.0, "1 s", true),
    (2.0, "2 s", false),
    (5.0, "5 s", false),
    (10.0, "10 s", true),
    (20.0, "20 s", false),
    (30.0, "30 s", false),
    (MINUTE, "1 min", true),
    (2.0 * MINUTE, "2 min", false),
    (5.0 * MINUTE, "5 min", false),
    (10.0 * MINUTE, "10 min", true),
    (20.0 * MINUTE, "20 min", false),
    (30.0 * MINUTE, "30 min", false),
    (HOUR, "1 h", true),
    (2.0 * HOUR, "2 h", false),
    (5.0 * HOUR, "5 h", false),
    (10.0 * HOUR, "10 h", false),
    (DAY, "1 d", true),
    (2.0 * DAY, "2 d", false),
    (5.0 * DAY, "5 d", false),
    (10.0 * DAY, "10 d", true),
    (20.0 * DAY, "20 d", false),
    (50.0 * DAY, "50 d", false),
    (100.0 * DAY, "100 d", true),
    (200.0 * DAY, "200 d", false),
    (500.0 * DAY, "500 d", false),
    (1000.0 * DAY, "1000 d", true),
    (10_000.0 * DAY, "10000 d", true),
    (100_000.0 * DAY, "100000 d", true),
];

/// The marks of an axis from `least` to `most` seconds.
fn marks(least: f64, most: f64) -> Vec<(f64, &'static str)> {
    let on = || MARKS.iter().filter(|(at, ..)| (least..=most).contains(at));
    let coarse: Vec<(f64, &str)> = on().filter(|(.., coarse)| *coarse).map(|(at, text, _)| (*at, *text)).collect();
    if coarse.len() >= 4 { coarse } else { on().map(|(at, text, _)| (*at, *text)).collect() }
}

/// Puts these marks in the place of the axis' own, which are powers of ten of a second.
pub(super) fn marked(scene: &mut Scene, axis: &ComputedLayout) {
    let marks = marks(axis.x_range.0, axis.x_range.1);
    let (top, bottom) = (axis.margin_top, axis.height - axis.margin_bottom);
    let upright = |one: &Primitive| matches!(one, Primitive::Line { x1, x2, .. } if x1 == x2 && *x1 > axis.margin_left);
    // Lines of the grid come first, below the data.
    let grid = scene.elements.iter().position(upright).unwrap_or(0);
    let below = |one: &Primitive| {
        matches!(one, Primitive::Text { y, size, content, .. }
            if *y > bottom && *size == axis.tick_size && content.parse::<f64>().is_ok())
    };
    if marks.is_empty() {
        for one in scene.elements.iter_mut().filter(|one| below(one)) {
            if let Primitive::Text { content, .. } = one {
                content.push_str(" s");
            }
        }
        return;
    }
    scene.elements.retain(|one| !upright(one) && !below(one));
    let line = |x: f64, y1: f64, y2: f64, stroke: &str, stroke_width: f64| {
        let stroke = stroke.into();
        Primitive::Line { x1: x, y1, x2: x, y2, stroke, stroke_width, stroke_dasharray: None }
    };
    for (at, text) in marks {
        let x = axis.map_x(at);
        scene.elements.insert(grid, line(x, top, bottom, &axis.theme.grid_color, axis.grid_stroke_width));
        scene.elements.push(line(x, bottom, bottom + axis.tick_mark_major, &axis.theme.tick_color, 1.0));
        scene.elements.push(Primitive::Text {
            x,
            y: bottom + axis.tick_mark_major + f64::from(axis.tick_size),
            content: text.into(),
            size: axis.tick_size,
            anchor: TextAnchor::Middle,
            rotate: None,
            bold: false,
            color: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_never_none_where_any_fits() {
        let texts = |least, most| marks(least, most).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts(3.0, 4e5), ["10 s", "1 min", "10 min", "1 h", "1 d"]);
        assert_eq!(texts(700.0, 9000.0), ["20 min", "30 min", "1 h", "2 h"]);
        assert!(texts(61.0, 80.0).is_empty());
        assert!(MARKS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
