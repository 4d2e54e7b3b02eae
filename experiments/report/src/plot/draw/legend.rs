//! Marks of lines in the legend: kuva's has a line with its dashes, or a mark, and lines here have both.

use kuva::plot::MarkerShape;
use kuva::render::render::{PathData, Primitive, Scene};

/// What a sample is longer than kuva draws it, so that its dashes are seen beside its mark.
const LONGER: f64 = 9.0;

/// Puts the mark of each line on its sample in the legend: of lines by their colours, in their order.
pub(super) fn marked(scene: &mut Scene, lines: &[(&str, MarkerShape)], radius: f64) {
    let mut left = lines.iter().peekable();
    let mut marks = Vec::new();
    for one in &mut scene.elements {
        let (Primitive::Line { x1, y1, x2, y2, stroke, .. }, Some((colour, mark))) = (one, left.peek()) else {
            continue;
        };
        // Lines of the grid and the axes have other colours, and data are paths.
        if y1 == y2 && *stroke == (*colour).into() {
            *x1 -= LONGER;
            marks.push(outline(*mark, ((*x1 + *x2) / 2.0, *y1), radius, colour));
            left.next();
        }
    }
    marks.into_iter().for_each(|mark| scene.add(mark));
}

/// A star's corners, a far one and a near one in turn.
const STAR: [(f64, f64); 10] = [
    (0.0, -1.25),
    (0.29, -0.4),
    (1.19, -0.39),
    (0.48, 0.15),
    (0.73, 1.01),
    (0.0, 0.5),
    (-0.73, 1.01),
    (-0.48, 0.15),
    (-1.19, -0.39),
    (-0.29, -0.4),
];

/// A mark around a place, as large as kuva draws those of the data.
fn outline(mark: MarkerShape, (x, y): (f64, f64), radius: f64, colour: &str) -> Primitive {
    let polygon = |corners: &[(f64, f64)]| {
        let at = |(dx, dy): &(f64, f64)| format!("{:.2},{:.2}", x + radius * dx, y + radius * dy);
        format!("M{} Z", corners.iter().map(at).collect::<Vec<_>>().join(" L"))
    };
    let strokes = |a: (f64, f64), b: (f64, f64)| {
        let line = |(dx, dy): (f64, f64)| {
            let (dx, dy) = (radius * dx, radius * dy);
            format!("M{:.2},{:.2} L{:.2},{:.2}", x - dx, y - dy, x + dx, y + dy)
        };
        format!("{} {}", line(a), line(b))
    };
    let d = match mark {
        MarkerShape::Square => polygon(&[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]),
        MarkerShape::Triangle => polygon(&[(0.0, -1.02), (-1.0, 0.68), (1.0, 0.68)]),
        MarkerShape::TriangleDown => polygon(&[(0.0, 1.02), (-1.0, -0.68), (1.0, -0.68)]),
        MarkerShape::Diamond => polygon(&[(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)]),
        MarkerShape::Star => polygon(&STAR),
        MarkerShape::Plus => strokes((0.9, 0.0), (0.0, 0.9)),
        MarkerShape::Cross => strokes((0.9, 0.9), (0.9, -0.9)),
        _ => {
            let (left, wide) = (x - radius, 2.0 * radius);
            format!(
                "M{left:.2},{y:.2} a{radius:.2},{radius:.2} 0 1 0 {wide:.2},0 a{radius:.2},{radius:.2} 0 1 0 -{wide:.2},0 Z"
            )
        }
    };
    let open = matches!(mark, MarkerShape::Plus | MarkerShape::Cross);
    Primitive::Path(Box::new(PathData {
        d,
        fill: if open { None } else { Some(colour.into()) },
        stroke: colour.into(),
        stroke_width: if open { 1.5 } else { 0.5 },
        opacity: None,
        stroke_dasharray: None,
    }))
}
