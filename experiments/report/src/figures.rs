//! Which figures a spec's results give.

mod classes;
mod distributions;
mod over_time;
mod predictions;
mod sweeps;

pub(super) use sweeps::mean_ranks;

use sandtable_core::error::Error;
use sandtable_hardware::Duration;
use sandtable_inputs::trace::Packed;
use sandtable_plan::{Cell, Plan};
use sandtable_results::metric::Metric;
use sandtable_results::reader;
use sandtable_results::schema::{JobRecord, StayRecord};
use sandtable_results::status::CellStatus;
use sandtable_results::store::Store;

use super::lanes::{Named, Timeline, drawing};
use super::plot::Figure;

/// Labels in the order of the spec.
pub(super) fn labels(plan: &Plan) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for cell in &plan.cells {
        if !all.contains(&cell.label.as_str()) {
            all.push(&cell.label);
        }
    }
    all
}

/// A point of a sweep: a path and its value, for each axis.
pub(super) type Point = [(String, String)];

/// Points of the sweep that have a result, in the order of the spec; one without axes where nothing is swept.
pub(super) fn points<'a>(plan: &'a Plan, store: &Store) -> Vec<&'a Point> {
    let mut all: Vec<&Point> = Vec::new();
    for cell in plan.cells.iter().filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)) {
        if !all.contains(&cell.variant.as_slice()) {
            all.push(&cell.variant);
        }
    }
    all
}

/// Cells of a policy at a point that have a result.
fn cells_at<'a>(plan: &'a Plan, store: &Store, label: &str, point: &Point) -> Vec<&'a Cell> {
    let fits = |cell: &&Cell| cell.label == label && cell.variant == point;
    plan.cells.iter().filter(fits).filter(|cell| store.has(&cell.id) && !store.has_failed(&cell.id)).collect()
}

/// `, at load=0.6`; nothing where nothing is swept. A path is called by its last word where that tells it from the others.
fn at_words(point: &Point) -> String {
    let last = |path: &'_ str| path.rsplit('.').next().unwrap_or_default().to_string();
    let short = |path: &str| match point.iter().filter(|(other, _)| last(other) == last(path)).count() {
        1 => last(path),
        _ => path.to_string(),
    };
    let words: Vec<String> = point.iter().map(|(path, value)| format!("{}={value}", short(path))).collect();
    if words.is_empty() { String::new() } else { format!(", at {}", words.join(" ")) }
}

/// The instant of UTC at which a run begins, as its trace has it: since 1970.
pub(super) fn origin(cell: &Cell) -> Option<Duration> {
    cell.setting.workload.fixed().and_then(Packed::origin)
}

/// The kinds of GPU that a job was on at last, in the order of its nodes; none of a job that never was on any.
pub(super) fn ran_on<'a>(cell: &'a Cell, job: &JobRecord) -> Vec<&'a str> {
    let mut kinds: Vec<&str> = Vec::new();
    for (node, _) in job.last_placement.0.iter().filter(|(_, gpus)| **gpus > 0) {
        let kind = cell.fleet.nodes.get(node.index()).and_then(|node| cell.fleet.types.get(node.gpu_type.index()));
        if let Some(kind) = kind.map(|kind| kind.name.as_str())
            && !kinds.contains(&kind)
        {
            kinds.push(kind);
        }
    }
    kinds
}

/// A figure, with what to know of it.
pub struct Captioned {
    /// The figure.
    pub figure: Figure,
    /// What to know of it.
    pub caption: String,
    /// The number of the point of the sweep that it is of; none: it is of the sweep.
    pub point: Option<usize>,
    /// Where jobs are told apart: by what, and what is shown of each class.
    pub class: Option<Class>,
}

/// What a figure tells jobs apart by, and what it shows of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Class {
    /// By what.
    pub by: &'static str,
    /// What is shown.
    pub shows: &'static str,
}

/// The figures of a page are of as many points of a sweep as fit into so many bytes: it is not an archive.
const BYTES: usize = 2_000_000;

/// What a cell's run left, of the jobs that are measured.
struct Run<'a> {
    cell: &'a Cell,
    jobs: Vec<JobRecord>,
}

/// The runs of a policy at a point.
struct Runs<'a> {
    label: &'a str,
    all: Vec<Run<'a>>,
    /// Every job and every stay of the first.
    first: Option<(Vec<JobRecord>, Vec<StayRecord>)>,
}

/// Every figure that the results give: those of each point of the sweep, then those of a metric along the sweep.
///
/// # Errors
/// A file of the store that can't be read.
pub fn figures(plan: &Plan, store: &Store, known: &[CellStatus], metric: &Metric) -> Result<Vec<Captioned>, Error> {
    let mut all = Vec::new();
    for (number, point) in points(plan, store).into_iter().enumerate() {
        all.extend(of_point(plan, store, number, point)?);
    }
    all.extend(sweeps::figures(plan, known, &points(plan, store), metric));
    all.retain(|one| !one.figure.is_empty());
    Ok(all)
}

/// The figures of a page, which draws sweeps from the metrics of cells; of how many points they are, at least of the first.
pub(super) struct OfPage {
    pub(super) figures: Vec<Captioned>,
    pub(super) points: usize,
}

/// Those of a page, in which each takes so many bytes.
pub(super) fn of_page(plan: &Plan, store: &Store, size: impl Fn(&Figure) -> usize) -> Result<OfPage, Error> {
    let (mut of, mut bytes) = (OfPage { figures: Vec::new(), points: 0 }, 0);
    for (number, point) in points(plan, store).into_iter().enumerate() {
        let mut own = of_point(plan, store, number, point)?;
        own.retain(|one| !one.figure.is_empty());
        bytes += own.iter().map(|one| size(&one.figure)).sum::<usize>();
        if number > 0 && bytes > BYTES {
            break;
        }
        of.figures.extend(own);
        of.points += 1;
    }
    Ok(of)
}

fn of_point(plan: &Plan, store: &Store, number: usize, point: &Point) -> Result<Vec<Captioned>, Error> {
    let (mut all, mut of) = (Vec::new(), Vec::new());
    for label in labels(plan) {
        let cells = cells_at(plan, store, label, point);
        let first =
            cells.first().map(|cell| Ok::<_, Error>((reader::jobs(store, &cell.id)?, reader::stays(store, &cell.id)?)));
        let read = |cell: &&Cell| reader::measured_jobs(store, &cell.id);
        let jobs = cells.iter().map(read).collect::<Result<Vec<_>, Error>>()?;
        let all = cells.iter().zip(jobs).map(|(cell, jobs)| Run { cell, jobs }).collect();
        of.push(Runs { label, all, first: first.transpose()? });
    }
    let at = at_words(point);
    let plain = |(figure, caption): (Figure, String)| Captioned { figure, caption, point: Some(number), class: None };
    all.extend(distributions::figures(&of, &at).into_iter().map(plain));
    all.extend(over_time::figures(&of, store, &at)?.into_iter().map(plain));
    all.extend(predictions::figures(&of, store, &at)?.into_iter().map(plain));
    let classed = classes::figures(&of, &at)?.into_iter();
    all.extend(classed.map(|(class, figure, caption)| Captioned {
        figure,
        caption,
        point: Some(number),
        class: Some(class),
    }));
    Ok(all)
}

/// Timelines of at most so many policies: a page is not an archive.
const TIMELINES: usize = 6;

/// The GPUs of each policy's first run at the first point over time.
pub(super) fn timelines(plan: &Plan, store: &Store) -> Result<(Vec<Timeline>, Named), Error> {
    let (mut all, mut named) = (Vec::new(), Named::default());
    let Some(point) = points(plan, store).into_iter().next() else { return Ok((all, named)) };
    for label in labels(plan).into_iter().take(TIMELINES) {
        let Some(cell) = cells_at(plan, store, label, point).into_iter().next() else { continue };
        let (jobs, stays) = (reader::jobs(store, &cell.id)?, reader::stays(store, &cell.id)?);
        let variant = cell.variant_text();
        let space = if variant.is_empty() { "" } else { " " };
        let run = format!("{variant}{space}seed {}", cell.seed);
        let (mut data, note) = drawing(&reader::nodes(store, &cell.id)?, &jobs, &stays, &mut named);
        data["origin"] = origin(cell).map(Duration::as_secs_f64).into();
        all.push(Timeline { policy: label.to_string(), run, note, data });
    }
    Ok((all, named))
}
