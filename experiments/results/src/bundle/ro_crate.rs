//! What a bundle is, for archives and search engines: an RO-Crate 1.1, JSON-LD in the words of schema.org.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sandtable_core::digest::digest;
use serde_json::{Value, json};

/// The file's name, which RO-Crate fixes.
pub(super) const FILE: &str = "ro-crate-metadata.json";

/// What its author says of a bundle.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The date, `YYYY-MM-DD`.
    pub date: Option<String>,
    /// The licence by its SPDX id, such as `CC-BY-4.0`.
    pub licence: Option<String>,
}

/// A path as a reference: each byte that may not stand in one by its number.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
    path.bytes().fold(String::new(), |mut out, byte| {
        let _ = if plain(byte) { write!(out, "{}", byte as char) } else { write!(out, "%{byte:02X}") };
        out
    })
}

/// A file's entity.
fn file(name: &str, bytes: &[u8]) -> Value {
    let format = match name.rsplit('.').next() {
        Some("csv") => "text/csv",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        Some("zst") => "application/zstd",
        Some("gz") => "application/gzip",
        _ if std::str::from_utf8(bytes).is_err() => "application/octet-stream",
        _ => "text/plain",
    };
    json!({
        "@id": encoded(name), "@type": "File", "name": name, "contentSize": bytes.len().to_string(), "encodingFormat": format,
        "identifier": format!("blake3:{}", digest(bytes)),
    })
}

/// The document of a bundle with these files, whose spec is the one of this name.
pub(super) fn document(
    title: &str,
    spec: &str,
    entries: &BTreeMap<String, Vec<u8>>,
    published: &Published,
) -> Result<Vec<u8>, serde_json::Error> {
    let id = |name: &str| json!({ "@id": name });
    let path = |name: &String| id(&encoded(name));
    let of =
        |folder: &str| -> Vec<Value> { entries.keys().filter(|name| name.starts_with(folder)).map(path).collect() };
    let inputs: Vec<Value> = of("tree/").into_iter().chain(of("policies/")).collect();
    let mut dataset = json!({
        "@id": "./", "@type": "Dataset", "name": title, "hasPart": entries.keys().map(path).collect::<Vec<_>>(),
        "description": format!(
            "An experiment of Sandtable: the spec {spec}, all that it is made of, and its results. `sandtable verify` runs it again and compares every byte."
        ),
        "mainEntity": id(&encoded(spec)), "mentions": id("#run"),
    });
    let mut graph = vec![json!({
        "@id": FILE, "@type": "CreativeWork", "about": id("./"), "conformsTo": id("https://w3id.org/ro/crate/1.1"),
    })];
    if let Some(date) = &published.date {
        dataset["datePublished"] = json!(date);
    }
    let licence = published.licence.as_ref().map(|name| (format!("https://spdx.org/licenses/{name}"), name));
    if let Some((address, _)) = &licence {
        dataset["license"] = id(address);
    }
    graph.push(dataset);
    graph.extend(licence.map(|(address, name)| json!({"@id": address, "@type": "CreativeWork", "name": name})));
    graph.push(json!({
        "@id": "#sandtable", "@type": "SoftwareApplication", "name": "Sandtable",
        "softwareVersion": format!("{} (build {})", env!("CARGO_PKG_VERSION"), sandtable_plan::build_info::BUILD),
    }));
    graph.push(json!({
        "@id": "#run", "@type": "CreateAction", "name": "sandtable run", "instrument": id("#sandtable"), "object": inputs,
        "result": of("results/"),
    }));
    graph.extend(entries.iter().map(|(name, bytes)| file(name, bytes)));
    serde_json::to_vec_pretty(&json!({"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}))
}
