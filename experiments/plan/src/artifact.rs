//! Policy components: finding them, and building them from source with whatever tool chain is there.

pub mod built;
pub mod data;
pub mod manifest;
pub mod oci;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandtable_core::error::Error;
use sandtable_core::text::nearest;
use sandtable_runtime::limits::Limits;

pub use data::{policies as shipped, predictors};

/// A component's file.
#[derive(Debug)]
pub struct PolicyFile {
    /// Where it was found; shipped policies of an installed binary have none.
    pub path: Option<PathBuf>,
    /// What is in it.
    pub bytes: Vec<u8>,
    /// blake3 of that.
    pub digest: String,
}

/// The folder of a component's crate, from the workspace's root.
pub fn sources_of(name: &str) -> String {
    if predictors().any(|known| known == name) {
        format!("policies/predictors/{name}")
    } else {
        format!("policies/{name}")
    }
}

/// The package of a component's crate.
pub fn package_of(name: &str) -> String {
    let kind = if predictors().any(|known| known == name) { "predictor" } else { "policy" };
    format!("sandtable-{kind}-{name}")
}

/// Finds components for one spec. A name is looked for in `--policies`, then in `policies/dist` of the nearest
/// folder above the spec, then in the binary; a path is relative to the spec, and so is the folder of an OCI layout.
pub struct Finder {
    folder: PathBuf,
    first: Option<PathBuf>,
    known: BTreeMap<String, Arc<PolicyFile>>,
    /// Several files may be the binary's.
    _unpacked: data::InUse,
}

impl Finder {
    /// For specs of a folder.
    pub fn new(folder: &Path, first: Option<&Path>) -> Finder {
        Finder {
            folder: folder.into(),
            first: first.map(Path::to_path_buf),
            known: BTreeMap::new(),
            _unpacked: data::InUse::new(),
        }
    }

    /// The component of this name.
    ///
    /// ```
    /// use sandtable_plan::artifact::Finder;
    ///
    /// let mut finder = Finder::new("/".as_ref(), None);
    /// assert!(finder.find("fifo").is_ok());
    /// let why = finder.find("fifi").expect_err("there is no such policy");
    /// assert_eq!(why, "no policy or predictor `fifi`; did you mean `fifo`?");
    /// ```
    ///
    /// # Errors
    /// What was looked for and where.
    pub fn find(&mut self, name: &str) -> Result<Arc<PolicyFile>, String> {
        if let Some(known) = self.known.get(name) {
            return Ok(known.clone());
        }
        let file = Arc::new(self.read(name)?);
        self.known.insert(name.to_string(), file.clone());
        Ok(file)
    }

    /// The components that were asked for without a path.
    pub fn without_path(&self) -> BTreeMap<String, Arc<PolicyFile>> {
        let named = self.known.iter().filter(|(name, _)| !is_path(name));
        named.map(|(name, file)| (name.clone(), file.clone())).collect()
    }

    /// The component of an OCI layout, which a spec names by its digest: what is called so may change.
    fn in_layout(&self, name: &str) -> Result<PolicyFile, Error> {
        let reference = oci::Reference::parse(name).map_err(Error::usage)?;
        let (bytes, sha256) = oci::pull(&self.folder, &reference)?;
        if reference.sha256.is_none() {
            return Err(Error::usage(format!("`{name}` is named without its digest: `{name}@sha256:{sha256}`")));
        }
        let digest = sandtable_core::digest::digest(&bytes);
        Ok(PolicyFile { path: Some(self.folder.join(reference.folder)), bytes, digest })
    }

    fn read(&self, name: &str) -> Result<PolicyFile, String> {
        if name.starts_with(oci::SCHEME) {
            return self.in_layout(name).map_err(|error| error.message);
        }
        if is_path(name) {
            let path = self.folder.join(name.strip_prefix("./").unwrap_or(name));
            let file = open(&path).map_err(|error| error.message)?;
            return built::outdated(&path, &file.digest).map_or(Ok(file), Err);
        }
        let file = format!("{name}.wasm");
        let mut places: Vec<PathBuf> = self.first.iter().cloned().collect();
        places.extend(dist_above(&self.folder));
        for place in &places {
            let path = place.join(&file);
            if path.exists() {
                return open(&path).map_err(|error| error.message);
            }
        }
        if let Some(bytes) = data::component(name) {
            let digest = sandtable_core::digest::digest(&bytes);
            return Ok(PolicyFile { path: None, bytes, digest });
        }
        let near = nearest(name, shipped().chain(predictors())).map(|near| format!("; did you mean `{near}`?"));
        let all = shipped().chain(predictors()).collect::<Vec<_>>().join(", ");
        let near = near.unwrap_or_else(|| format!("; shipped are {all}"));
        Err(format!("no policy or predictor `{name}`{near}"))
    }
}

/// Whether a component, or a script, is named by where it is.
pub fn is_path(name: &str) -> bool {
    name.starts_with(oci::SCHEME) || name.contains('/') || name.ends_with(".wasm") || is_script(name)
}

/// Whether a file of a spec is a component, a script, or a part of a layout that has one; all others are data.
pub fn is_of_policy(name: &str) -> bool {
    name.ends_with(".wasm") || is_script(name) || name.contains("/blobs/sha256/") || name.ends_with("/oci-layout")
}

/// Whether a policy is named by the path of a script, which the policy [`SCRIPT`] runs.
pub fn is_script(name: &str) -> bool {
    name.ends_with(".star")
}

/// The policy that runs scripts.
pub const SCRIPT: &str = "script";

fn open(path: &Path) -> Result<PolicyFile, Error> {
    let bytes = sandtable_core::input::read(path, Limits::COMPONENT as u64)?;
    let digest = sandtable_core::digest::digest(&bytes);
    Ok(PolicyFile { path: Some(path.to_path_buf()), bytes, digest })
}

/// `policies/dist` of the nearest folder above this one.
pub fn dist_above(folder: &Path) -> Option<PathBuf> {
    workspace_above(folder).map(|root| root.join("policies/dist"))
}

/// The nearest folder above this one that is a Sandtable workspace.
pub fn workspace_above(folder: &Path) -> Option<PathBuf> {
    let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = std::fs::canonicalize(here).ok()?;
    let root =
        folder.ancestors().find(|folder| folder.join("policies/dist").is_dir() && folder.join("Cargo.toml").is_file());
    root.map(Path::to_path_buf)
}
