//! Drawings as PDF and PNG, and SVG without text: words set in fonts of this machine.

use std::path::Path;
use std::sync::Arc;

use krilla::Document;
use krilla::geom::Size;
use krilla::metadata::Metadata;
use krilla::page::PageSettings;
use krilla_svg::{SurfaceExt as _, SvgSettings};
use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{Indent, Options, Tree, WriteOptions};
use sandtable_core::error::Error;

/// Dots an inch of a PNG, over the points of the drawing.
const DOTS: f32 = 300.0 / 72.0;

/// What stands for a family that papers ask for, the first of which that is there: fonts of the same widths.
const ALIKE: [(&str, &[&str]); 4] = [
    ("Times", &["Times", "Times New Roman", "Nimbus Roman", "TeX Gyre Termes", "Liberation Serif", "Tinos"]),
    ("Helvetica", &["Helvetica", "Arial", "Nimbus Sans", "TeX Gyre Heros", "Liberation Sans", "Arimo"]),
    ("sans-serif", &["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans"]),
    ("serif", &["Times New Roman", "Times", "Liberation Serif", "Tinos", "DejaVu Serif", "Noto Serif"]),
];

/// The fonts of this machine, among which is the one that is asked for: a family, or a file.
fn fonts(font: &str) -> Result<(Database, String), Error> {
    let mut all = Database::new();
    all.load_system_fonts();
    let lacks = |what: String| Error::usage(what).hint("--font FILE.ttf, or `apt-get install fonts-dejavu-core`");
    let mut family = font.to_string();
    if Path::new(font).is_file() {
        let before = all.len();
        all.load_font_file(font).map_err(|why| lacks(format!("{font}: {why}")))?;
        let own = all.faces().nth(before).and_then(|face| face.families.first()).map(|(name, _)| name.clone());
        family = own.ok_or_else(|| lacks(format!("{font}: not a font")))?;
    }
    let has =
        |all: &Database, family: Family<'_>| all.query(&Query { families: &[family], ..Query::default() }).is_some();
    if let Some((_, names)) = ALIKE.iter().find(|(asked, _)| *asked == family) {
        let found = names.iter().find(|name| has(&all, Family::Name(name)));
        let found = found.ok_or_else(|| lacks(format!("no font `{family}` on this machine, and none like it")))?;
        family = (*found).to_string();
    }
    if !has(&all, Family::Name(&family)) {
        return Err(lacks(format!("no font `{family}` on this machine")));
    }
    Ok((all, family))
}

/// The drawing with its text laid out.
fn tree(svg: &str, font: &str) -> Result<Tree, Error> {
    let (fonts, family) = fonts(font)?;
    // Points are units here.
    let options = Options { fontdb: Arc::new(fonts), font_family: family.clone(), dpi: 72.0, ..Options::default() };
    let named = svg.replace(&format!("font-family=\"{font}\""), &format!("font-family=\"{family}\""));
    Tree::from_str(&named, &options).map_err(|why| Error::internal(format!("a figure that is no SVG: {why}")))
}

/// The drawing with its words as outlines.
pub(in crate::plot) fn outlined(svg: &str, font: &str) -> Result<String, Error> {
    let tree = tree(svg, font)?;
    // A hundredth of a dot is seen by no eye, and the file is half as large.
    let options = WriteOptions {
        indent: Indent::None,
        coordinates_precision: 4,
        transforms_precision: 6,
        ..WriteOptions::default()
    };
    let drawn = tree.to_string(&options);
    let Some((_, body)) = drawn.split_once('>') else { return Ok(drawn) };
    let rounded = |points: f32| (f64::from(points) * 100.0).round() / 100.0;
    let (wide, high) = (rounded(tree.size().width()), rounded(tree.size().height()));
    // What it shows stays said to those who do not see it.
    let label =
        svg.split_once(" role=\"img\"").and_then(|(_, rest)| rest.split_once('>')).map_or("", |(label, _)| label);
    let said = if label.is_empty() { String::new() } else { format!(" role=\"img\"{label}") };
    Ok(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{wide}pt\" height=\"{high}pt\" viewBox=\"0 0 {wide} {high}\"{said}>{body}"
    ))
}

pub(in crate::plot) fn pdf(svg: &str, font: &str) -> Result<Vec<u8>, Error> {
    let tree = tree(svg, font)?;
    let mut document = Document::new();
    document.set_metadata(Metadata::new().creator("sandtable".to_string()).producer("krilla".to_string()));
    let wrong = |what: &str| Error::internal(format!("a figure that is no PDF: {what}"));
    let size = Size::from_wh(tree.size().width(), tree.size().height()).ok_or_else(|| wrong("its size"))?;
    let mut page = document.start_page_with(PageSettings::new(size));
    let mut surface = page.surface();
    surface.draw_svg(&tree, size, SvgSettings::default());
    surface.finish();
    page.finish();
    document.finish().map_err(|why| wrong(&format!("{why:?}")))
}

pub(in crate::plot) fn png(svg: &str, font: &str) -> Result<Vec<u8>, Error> {
    let tree = tree(svg, font)?;
    let wrong = |what: &str| Error::usage(format!("a figure that is no PNG: {what}"));
    let (wide, high) = ((tree.size().width() * DOTS).ceil() as u32, (tree.size().height() * DOTS).ceil() as u32);
    let mut pixels = Pixmap::new(wide, high).ok_or_else(|| wrong("it is too large"))?;
    pixels.fill(resvg::tiny_skia::Color::WHITE);
    resvg::render(&tree, Transform::from_scale(DOTS, DOTS), &mut pixels.as_mut());
    pixels.encode_png().map_err(|why| wrong(&why.to_string()))
}
