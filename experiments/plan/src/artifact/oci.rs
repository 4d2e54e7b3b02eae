//! Components in a folder that is an OCI image layout, from which registries' own tools (`skopeo`, `oras`, `crane`) copy them elsewhere.
//!
//! A component is one layer, `application/wasm`, of a manifest whose configuration is `application/vnd.wasm.config.v0+json`, as the CNCF's Wasm working
//! group has it. A spec names the manifest by its digest; the name before it is for people.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};

use sandtable_core::error::Error;
use sandtable_core::{input, output};
use sandtable_runtime::limits::Limits;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// What a name of a component in a layout begins with.
pub const SCHEME: &str = "oci:";

/// What makes a folder a layout.
const VERSION_FILE: &str = "oci-layout";
const VERSION: &str = r#"{"imageLayoutVersion":"1.0.0"}"#;
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
const NAME: &str = "org.opencontainers.image.ref.name";
/// Bytes of an index, a manifest or a configuration.
const DOCUMENT: u64 = 16 << 20;

/// `oci:FOLDER#NAME@sha256:HEX`, a component in a layout; the digest may be left out where people say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference<'a> {
    /// The layout's folder.
    pub folder: &'a str,
    /// What it is called there, such as `fifo` or `fifo:0.1.0`.
    pub name: &'a str,
    /// The SHA-256 of its manifest, in hexadecimal.
    pub sha256: Option<&'a str>,
}

impl<'a> Reference<'a> {
    /// Reads one.
    ///
    /// ```
    /// use sandtable_plan::artifact::oci::Reference;
    ///
    /// let reference = Reference::parse("oci:shared/policies#mine:1.2")?;
    /// assert_eq!((reference.folder, reference.name, reference.sha256), ("shared/policies", "mine:1.2", None));
    /// assert!(Reference::parse("oci:shared/policies").is_err());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// What is missing.
    pub fn parse(text: &'a str) -> Result<Reference<'a>, String> {
        let wrong = || format!("expected `oci:FOLDER#NAME@sha256:HEX`, found `{text}`");
        let (folder, rest) = text.strip_prefix(SCHEME).and_then(|rest| rest.split_once('#')).ok_or_else(wrong)?;
        let (name, sha256) = match rest.split_once('@') {
            None => (rest, None),
            Some((name, digest)) => (name, Some(hex_of(digest).ok_or_else(wrong)?)),
        };
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._-:/+".contains(c);
        let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric());
        if folder.is_empty() || !begins || !name.chars().all(allowed) {
            return Err(wrong());
        }
        Ok(Reference { folder, name, sha256 })
    }
}

/// The hexadecimal part of `sha256:HEX`.
fn hex_of(digest: &str) -> Option<&str> {
    let hex = digest.strip_prefix("sha256:")?;
    let digits = hex.len() == 64 && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    digits.then_some(hex)
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn blob(layout: &Path, hex: &str) -> PathBuf {
    layout.join("blobs/sha256").join(hex)
}

/// A blob, if its bytes are those of its digest.
fn read_blob(layout: &Path, hex: &str, most: u64) -> Result<Vec<u8>, Error> {
    let path = blob(layout, hex);
    let bytes = input::read(&path, most)?;
    match sha256(&bytes) == hex {
        true => Ok(bytes),
        false => Err(Error::usage(format!("{}: its bytes are not those of its digest", path.display()))),
    }
}

fn document(path: &Path, bytes: &[u8]) -> Result<Value, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::usage(format!("{}: {error}", path.display())))
}

fn write_blob(layout: &Path, media: &str, bytes: &[u8]) -> Result<Value, Error> {
    let hex = sha256(bytes);
    output::write(&blob(layout, &hex), bytes)?;
    Ok(json!({"mediaType": media, "digest": format!("sha256:{hex}"), "size": bytes.len()}))
}

/// Refuses a folder that holds something else than a layout of this version, or the beginning of one.
fn is_layout(layout: &Path) -> Result<(), Error> {
    let ours = |path: &PathBuf| ["blobs", "index.json", VERSION_FILE].iter().any(|name| path.ends_with(name));
    let path = layout.join(VERSION_FILE);
    if !path.exists() && !input::sorted(layout)?.iter().all(ours) {
        let error = Error::usage(format!("{}: a folder with other files, and no OCI layout", layout.display()));
        return Err(error.hint("name a folder that is not there yet"));
    }
    if path.exists() {
        let found = document(&path, &input::read(&path, DOCUMENT)?)?;
        if found.get("imageLayoutVersion").and_then(Value::as_str) != Some("1.0.0") {
            return Err(Error::usage(format!("{}: expected imageLayoutVersion 1.0.0, found {found}", path.display())));
        }
    }
    Ok(())
}

/// The files of a layout that a component is, by paths relative to what the reference is relative to; the folder, where that is not known.
pub(crate) fn files(folder: &Path, reference: &Reference<'_>) -> Vec<String> {
    let whole = || vec![reference.folder.to_string()];
    let Some(hex) = reference.sha256 else { return whole() };
    let layout = folder.join(reference.folder);
    let Ok(manifest) = read_blob(&layout, hex, DOCUMENT).and_then(|bytes| document(&layout, &bytes)) else {
        return whole();
    };
    let named = [&manifest["config"]["digest"], &manifest["layers"][0]["digest"]];
    let blobs = named.into_iter().filter_map(|digest| hex_of(digest.as_str()?)).chain([hex]);
    let blobs = blobs.map(|hex| format!("{}/blobs/sha256/{hex}", reference.folder));
    blobs.chain([format!("{}/{VERSION_FILE}", reference.folder)]).collect()
}

/// What is said of a component that is put into a layout.
pub struct Described<'a> {
    /// What it is called there.
    pub name: &'a str,
    /// One line for people.
    pub about: &'a str,
    /// Interfaces that it exports, and those that it imports.
    pub interfaces: (Vec<String>, Vec<String>),
}

/// Puts a component into a layout, which is made where there is none; one of the same name is no longer called so. Returns the SHA-256 of its manifest.
/// The same component under the same words is the same bytes.
///
/// # Errors
/// A folder that is no layout, and files that can't be written.
pub fn push(layout: &Path, component: &[u8], described: &Described<'_>) -> Result<String, Error> {
    // Others may push too: one at a time, until this ends.
    std::fs::create_dir_all(layout).map_err(|error| Error::file("make", layout, &error))?;
    let folder = File::open(layout).map_err(|error| Error::file("open", layout, &error))?;
    folder.lock().map_err(|error| Error::file("lock", layout, &error))?;
    is_layout(layout)?;
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).map_err(|error| Error::file("make", &blobs, &error))?;
    output::write(&layout.join(VERSION_FILE), VERSION)?;
    let index_path = layout.join("index.json");
    let mut index = match index_path.exists() {
        true => document(&index_path, &input::read(&index_path, DOCUMENT)?)?,
        // A push that did not come to its end leaves none either.
        false => json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}),
    };
    let wrong = || Error::usage(format!("{}: expected an object with a list `manifests`", index_path.display()));
    if !index.get("manifests").is_some_and(Value::is_array) {
        return Err(wrong());
    }
    let layer = write_blob(layout, LAYER, component)?;
    let (exports, imports) = &described.interfaces;
    let config = json!({
        // No date: the same component is the same manifest.
        "created": "1970-01-01T00:00:00Z", "architecture": "wasm", "os": "wasip2", "layerDigests": [layer["digest"]],
        "component": {"exports": exports, "imports": imports, "target": null},
    });
    let config = write_blob(layout, CONFIG, config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer],
        "annotations": {"org.opencontainers.image.description": described.about},
    });
    let mut entry = write_blob(layout, MANIFEST, manifest.to_string().as_bytes())?;
    let digest = entry["digest"].as_str().unwrap_or_default().to_string();
    entry["annotations"] = json!({ NAME: described.name });
    let manifests = index["manifests"].as_array_mut().ok_or_else(wrong)?;
    manifests.retain(|known| known["annotations"][NAME] != described.name);
    manifests.push(entry);
    manifests.sort_by_key(|known| known["annotations"][NAME].as_str().map(str::to_string));
    output::write(&index_path, index.to_string())?;
    Ok(hex_of(&digest).unwrap_or_default().to_string())
}

/// A component of a layout, and the SHA-256 of its manifest; `folder` is what the reference is relative to.
///
/// # Errors
/// What is not there, is something else, or has other bytes than its digest says.
pub fn pull(folder: &Path, reference: &Reference<'_>) -> Result<(Vec<u8>, String), Error> {
    let layout = folder.join(reference.folder);
    let hex = match reference.sha256 {
        Some(hex) => hex.to_string(),
        None => named(&layout, reference.name)?,
    };
    let path = blob(&layout, &hex);
    let manifest = document(&path, &read_blob(&layout, &hex, DOCUMENT)?)?;
    let layers = manifest["layers"].as_array().map_or(&[][..], Vec::as_slice);
    let [layer] = layers else {
        let why = format!("{}: expected one layer, found {}", path.display(), layers.len());
        return Err(Error::usage(why));
    };
    if layer["mediaType"] != LAYER {
        return Err(Error::usage(format!(
            "{}: expected a layer {LAYER}, found {}",
            path.display(),
            layer["mediaType"]
        )));
    }
    let digest = layer["digest"].as_str().and_then(hex_of);
    let digest = digest.ok_or_else(|| {
        Error::usage(format!("{}: expected a digest sha256:HEX, found {}", path.display(), layer["digest"]))
    })?;
    Ok((read_blob(&layout, digest, Limits::COMPONENT as u64)?, hex))
}

/// The SHA-256 of the manifest that is called so.
fn named(layout: &Path, name: &str) -> Result<String, Error> {
    let path = layout.join("index.json");
    let index = document(&path, &input::read(&path, DOCUMENT)?)?;
    let manifests = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
    let known = |entry: &&Value| entry["annotations"][NAME] == name;
    match manifests.iter().find(known).and_then(|entry| entry["digest"].as_str()).and_then(hex_of) {
        Some(hex) => Ok(hex.to_string()),
        None => {
            let names: Vec<&str> = manifests.iter().filter_map(|entry| entry["annotations"][NAME].as_str()).collect();
            let known = if names.is_empty() { "nothing".into() } else { names.join(", ") };
            Err(Error::usage(format!("{}: nothing is called `{name}`; it has {known}", path.display())))
        }
    }
}
