//! Building a Rust policy to a component, with either of two tool chains, so that the same sources give the same
//! bytes in any folder and no path of a machine is in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use sandtable_core::error::Error;
use sandtable_core::input::sorted;
use sandtable_plan::artifact::package_of;

/// A way to compile for `wasm32-unknown-unknown`.
#[derive(Debug)]
pub struct Toolchain {
    cargo: PathBuf,
    rustc: PathBuf,
    /// Debian's compiler comes without the target's standard library and builds it; rustup's has it.
    build_std: bool,
    /// `rustc -V`.
    pub version: String,
}

const DEBIAN: &str = "apt-get install -y --no-install-recommends rustc-web rust-web-src cargo-web lld-19";
const TARGET: &str = "wasm32-unknown-unknown";

/// The tool chain of this machine.
///
/// # Errors
/// How to get one.
pub fn toolchain() -> Result<Toolchain, Error> {
    if !cfg!(feature = "authors") {
        return Err(lacks_authors());
    }
    let output = |program: &Path, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_string())
    };
    let rustup = PathBuf::from("rustc");
    if let Some(libraries) = output(&rustup, &["--print", "target-libdir", "--target", TARGET])
        && Path::new(&libraries).is_dir()
        && let Some(version) = output(&rustup, &["-V"])
    {
        return Ok(Toolchain { cargo: "cargo".into(), rustc: rustup, build_std: false, version });
    }
    let debian = PathBuf::from("/usr/bin/rustc");
    let there = ["/usr/bin/cargo", "/usr/bin/wasm-ld-19"].iter().all(|file| Path::new(file).exists());
    if there && let Some(version) = output(&debian, &["-V"]) {
        return Ok(Toolchain { cargo: "/usr/bin/cargo".into(), rustc: debian, build_std: true, version });
    }
    let hint = format!("`rustup target add {TARGET}`, or on Debian `{DEBIAN}`");
    Err(Error::usage(format!("no Rust compiler for {TARGET} on this machine")).hint(hint))
}

/// Builds the package `package` of the workspace, or the project, `root` and makes its library, `name`, a component.
///
/// # Errors
/// What the compiler said, or why the module is no component.
pub fn build(root: &Path, package: &str, name: &str, toolchain: &Toolchain) -> Result<Vec<u8>, Error> {
    build_in(&root.join("target/guests"), root, package, name, toolchain)
}

/// Most policies that are built at a time.
const BUILDERS: usize = 8;

/// Builds policies of the workspace `root`, as many at a time as there are cores, since the last step of each is on one core, and hands each to
/// `then`, in their order.
///
/// # Errors
/// The first of `then`.
pub fn build_each(
    root: &Path,
    names: &[&str],
    toolchain: &Toolchain,
    mut then: impl FnMut(&str, Result<Vec<u8>, Error>) -> Result<(), Error>,
) -> Result<(), Error> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let next = &AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let (built, of_any) = mpsc::channel();
        for builder in 0..cores.min(BUILDERS).min(names.len()) {
            let built = built.clone();
            // Two builds in one folder wait for each other.
            let target = match builder {
                0 => root.join("target/guests"),
                _ => root.join(format!("target/guests-{builder}")),
            };
            scope.spawn(move || {
                while let at = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(name) = names.get(at)
                    && built.send((at, build_in(&target, root, &package_of(name), name, toolchain))).is_ok()
                {
                }
            });
        }
        drop(built);
        let (mut waiting, mut at) = (BTreeMap::new(), 0);
        for (place, bytes) in of_any {
            waiting.insert(place, bytes);
            while let Some(bytes) = waiting.remove(&at) {
                then(names[at], bytes)?;
                at += 1;
            }
        }
        Ok(())
    })
}

fn build_in(target: &Path, root: &Path, package: &str, name: &str, toolchain: &Toolchain) -> Result<Vec<u8>, Error> {
    let mut command = Command::new(&toolchain.cargo);
    command
        .current_dir(root)
        .arg("build")
        // A project that was never built has no lock yet.
        .args(root.join("Cargo.lock").exists().then_some("--locked"))
        .args(["-p", package, "--profile", "guest", "--target", TARGET, "--target-dir"])
        .arg(target)
        .env("RUSTC", &toolchain.rustc)
        .env("CARGO_ENCODED_RUSTFLAGS", remaps(root, target, toolchain).join("\u{1f}"))
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("CARGO_TARGET_DIR");
    if toolchain.build_std {
        command
            .arg("-Zbuild-std=std,panic_abort")
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", "/usr/bin/wasm-ld-19");
    }
    let output = command.output().map_err(|error| Error::file("run", &toolchain.cargo, &error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::usage(format!("`{name}` does not build:\n{}", said.trim_end())));
    }
    let file = target.join(TARGET).join("guest").join(format!("{}.wasm", name.replace('-', "_")));
    let module = std::fs::read(&file).map_err(|error| Error::file("read", &file, &error))?;
    componentise(&module)
}

/// A component from a core module that carries the contract's types.
///
/// # Errors
/// Why it can't be one.
#[cfg(feature = "authors")]
pub fn componentise(module: &[u8]) -> Result<Vec<u8>, Error> {
    let wrong = |error: &dyn std::fmt::Display| Error::usage(format!("the module can't become a component: {error:#}"));
    let mut encoder = wit_component::ComponentEncoder::default();
    encoder.validate(true).module(module).map_err(|error| wrong(&error))?;
    encoder.encode().map_err(|error| wrong(&error))
}

/// A component from a core module that carries the contract's types.
///
/// # Errors
/// Always: this build lacks the feature `authors`.
#[cfg(not(feature = "authors"))]
pub fn componentise(_: &[u8]) -> Result<Vec<u8>, Error> {
    Err(lacks_authors())
}

/// The error of a build without the feature `authors`.
pub(super) fn lacks_authors() -> Error {
    Error::usage("this build makes no components").hint("cargo build --release --features authors")
}

/// Every folder whose path could end up in a component, under a name that all machines share.
fn remaps(root: &Path, target: &Path, toolchain: &Toolchain) -> Vec<String> {
    let mut pairs: Vec<(PathBuf, &str)> = Vec::new();
    for registry in cargo_home().iter().flat_map(|home| sorted(&home.join("registry/src")).unwrap_or_default()) {
        pairs.push((registry, "deps"));
    }
    pairs.push((root.to_path_buf(), "sandtable"));
    // What build scripts write is named after the folder that it is built in; of several prefixes rustc takes the last.
    pairs.push((target.to_path_buf(), "sandtable/target/guests"));
    let release = toolchain.version.split(' ').nth(1).unwrap_or_default();
    pairs.push((format!("/usr/src/rustc-{release}").into(), "rust"));
    pairs.push(("/usr/lib/rustlib/src/rust".into(), "rust"));
    pairs.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect()
}

#[expect(clippy::disallowed_methods, reason = "where cargo keeps sources is a fact of the machine, and is mapped away")]
fn cargo_home() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}
