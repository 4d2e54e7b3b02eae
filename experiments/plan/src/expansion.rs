//! From a spec to its cells, a part at a time.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandtable_core::error::Error;

use crate::artifact::Finder;
use crate::axes::{at, clash, pick, texts};
use crate::spec::{Source, Spec};
use crate::{Claim, MAX_CELLS, MORE, Options, Plan, claims, files, fleet, resolve, spec_text, workload};

/// A spec whose cells are made a part at a time: all cells of a large sweep fill a machine's memory.
pub struct Expansion<'a> {
    source: Source,
    spec: Spec,
    folder: PathBuf,
    options: &'a Options,
    /// The paths of the sweep, each with its values.
    axes: Vec<(String, Vec<String>)>,
    /// Variants.
    count: usize,
    /// The next of them.
    next: usize,
    /// Cells so far.
    made: usize,
    finder: Finder,
    last_trace: workload::LastTrace,
    /// Policies at the values of the sweep, of all parts so far: what claims are about.
    stated: Vec<(String, Vec<(String, String)>)>,
    labels: BTreeSet<String>,
}

impl<'a> Expansion<'a> {
    /// Reads a spec.
    ///
    /// # Errors
    /// A mistake of the spec that shows without its cells, with its place.
    pub fn open(path: &Path, options: &'a Options) -> Result<Expansion<'a>, Error> {
        let text = spec_text(path)?;
        // Some editors begin a file with a byte-order mark.
        let text = text.strip_prefix('\u{feff}').map_or(text.clone(), str::to_string);
        Expansion::of_text(path, text, options)
    }

    /// Reads a spec that is in memory, as if it were in a file.
    pub(super) fn of_text(path: &Path, text: String, options: &'a Options) -> Result<Expansion<'a>, Error> {
        let origin = path.display().to_string();
        let mut source = Source::of_any(origin, text)?;
        // Mistakes of the file itself come first, without any edit.
        let spec = source.parse()?;
        if options.test {
            for (place, value) in texts(&source, "test", spec.test.keys()) {
                source = source.with(&place, &value[0])?;
            }
        }
        for (place, value) in &options.set {
            source = source.with(place, value)?;
        }
        let spec = source.parse()?;
        let mut axes = texts(&source, "sweep", spec.sweep.keys());
        for (place, values) in &options.sweep {
            axes.retain(|(known, _)| known != place);
            axes.push((place.clone(), values.clone()));
        }
        clash(&options.set, &options.sweep, &axes)?;
        for (place, value) in &options.set {
            if let Some((_, values)) = axes.iter_mut().find(|(known, _)| known == place) {
                *values = vec![value.clone()];
            }
        }
        at(&mut axes, &source, &options.at)?;
        if let Some((place, _)) = axes.iter().find(|(_, values)| values.is_empty()) {
            return Err(source.error("sweep", &format!("the sweep of {place} has no value"), "here"));
        }
        let count = axes.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
        let most = options.max_cells.unwrap_or(MAX_CELLS);
        let Some(count) = count.filter(|count| *count <= most) else {
            let message = format!("{}: the sweep has more than {most} combinations", source.origin);
            return Err(Error::usage(message).hint(MORE));
        };
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let finder = Finder::new(&folder, options.policies.as_deref());
        let (stated, labels, last_trace) = (Vec::new(), BTreeSet::new(), workload::LastTrace::default());
        let (next, made) = (0, 0);
        Ok(Expansion { source, spec, folder, options, axes, count, next, made, finder, last_trace, stated, labels })
    }

    /// Whether all cells were made.
    pub fn is_done(&self) -> bool {
        self.next == self.count
    }

    /// The cells of the next variants: as many as have at least so many cells together. Claims are left out.
    ///
    /// # Errors
    /// Every mistake of a spec, with its place.
    pub fn part(&mut self, least: usize) -> Result<Plan, Error> {
        let (mut cells, mut files) = (Vec::new(), BTreeSet::new());
        while !self.is_done() && cells.len() < least {
            let (variant, edited) = self.variant()?;
            self.next += 1;
            let spec = edited.parse()?;
            let folder = self.folder.as_path();
            let mut named = files::files(&spec, folder);
            named.retain(|name| fleet::shipped(folder, name).is_none());
            if let Some(root) = &self.options.within {
                let out = |name: &&String| !files::normal(&folder.join(name)).starts_with(root);
                if let Some(name) = named.iter().find(out) {
                    return Err(Error::usage(format!("{}: {name} leads out of the bundle", self.source.origin)));
                }
                let graphs = files::graphs_of(&spec, folder);
                if let Some(name) = graphs.iter().find(out) {
                    return Err(Error::usage(format!(
                        "{}: the graph {name} leads out of the bundle",
                        self.source.origin
                    )));
                }
            }
            files.extend(named);
            let made = self.made + cells.len();
            let kept = (&mut self.finder, &mut self.last_trace);
            cells.extend(resolve::cells(&edited, &spec, (folder, self.options, made), kept, &variant)?);
        }
        self.made += cells.len();
        let mut known = None;
        for cell in &cells {
            let of = Arc::as_ptr(&cell.of);
            if known.replace(of) != Some(of) && !self.spec.claims.is_empty() {
                self.stated.push((cell.label.clone(), cell.variant.clone()));
            }
            if !self.labels.contains(&cell.label) {
                self.labels.insert(cell.label.clone());
            }
        }
        if !self.options.only.is_empty() {
            cells.retain(|cell| self.options.only.contains(&cell.label));
        }
        let (title, source, named) = (self.spec.title.clone(), self.source.clone(), self.finder.without_path());
        Ok(Plan { title, source, cells, claims: Vec::new(), files, named })
    }

    /// The values of the next variant, and the spec as it has them.
    fn variant(&self) -> Result<(Vec<(String, String)>, Source), Error> {
        let variant = pick(&self.axes, self.next);
        let mut edited = self.source.clone();
        for (place, value) in &variant {
            edited = edited.with(place, value)?;
        }
        // What is set below a value that is swept is set in each.
        let below = |place: &str| variant.iter().any(|(known, _)| place.starts_with(&format!("{known}.")));
        for (place, value) in self.options.set.iter().filter(|(place, _)| below(place)) {
            edited = edited.with(place, value)?;
        }
        Ok((variant, edited))
    }

    /// The spec's text, with what was set.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// What is claimed of the cells, all of which were made. Whether the metrics exist that claims name is checked
    /// by `sandtable-results`.
    ///
    /// # Errors
    /// A claim, or a policy that is asked for, that the spec does not have.
    pub fn claims(&self) -> Result<Vec<Claim>, Error> {
        let stated: Vec<(&str, &[(String, String)])> =
            self.stated.iter().map(|(label, variant)| (label.as_str(), variant.as_slice())).collect();
        let claims = claims::resolve(&self.source, &self.spec.claims, &stated, self.options)?;
        if let Some(label) = self.options.only.iter().find(|label| !self.labels.contains(*label)) {
            let message =
                format!("{}: no policy is called `{}`", self.source.origin, sandtable_core::text::line(label));
            let all: Vec<&str> = self.labels.iter().map(String::as_str).collect();
            return Err(Error::usage(message).hint(format!("expected one of: {}", all.join(", "))));
        }
        Ok(claims)
    }
}
