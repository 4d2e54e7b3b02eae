//! What is handed out: the archive is where `cargo binstall` looks for it, and the same binary gives the same archive.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use sandtable_needs::needs;

use crate::help::root;

/// The archive of a stand-in for the binary.
fn released(folder: &Path, out: &str) -> Vec<u8> {
    let binary = folder.join("sandtable");
    let script = "#!/bin/sh\n[ \"$1\" = --version ] && echo sandtable 0.1.0 || echo notices\n";
    std::fs::write(&binary, script).expect("written");
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let made = Command::new(root().join(".ci/release")).arg(&binary).arg(folder.join(out)).output().expect("it runs");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::read(folder.join(out).join(format!("{}.tar.xz", name()))).expect("an archive")
}

/// What the metadata of `cargo binstall` makes of this package on this machine.
fn name() -> String {
    let metadata = std::fs::read_to_string(root().join("experiments/Cargo.toml")).expect("a manifest");
    let url = metadata.lines().find_map(|line| line.strip_prefix("pkg-url = ")).expect("a template").trim_matches('"');
    let file = url.rsplit('/').next().expect("a file").strip_suffix(".tar.xz").expect("an archive");
    let target = sandtable_plan::build_info::TARGET;
    file.replace("{ name }", "sandtable").replace("{ version }", "0.1.0").replace("{ target }", target)
}

#[needs("tool:xz", "tool:python3")]
#[test]
fn the_archive_is_where_binstall_looks_and_the_same_each_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = released(folder.path(), "a");
    assert!(first == released(folder.path(), "b"), "two archives differ");
    let listed = Command::new("tar").arg("-tJf").arg(folder.path().join(format!("a/{}.tar.xz", name()))).output();
    let listed = String::from_utf8(listed.expect("tar runs").stdout).expect("text");
    let inside: Vec<String> = listed.lines().map(|line| line.replace(&name(), "")).collect();
    let files =
        ["/", "/CHANGELOG.md", "/LICENSE-APACHE", "/LICENSE-MIT", "/README.md", "/THIRD-PARTY.txt", "/sandtable"];
    assert_eq!(inside, files);
    let sums = std::fs::read_to_string(folder.path().join(format!("a/{}.tar.xz.sha256", name()))).expect("sums");
    assert!(sums.trim_end().ends_with(&format!("{}.tar.xz", name())), "{sums}");
}
