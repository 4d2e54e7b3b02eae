//! `#[needs("data:pollux", "tool:chromium")]`: a test that is reported as *ignored*, with the reason, where what it needs is
//! lacking when it is compiled.
//!
//! - `data:NAME`: a file or folder of the data that tests compare with, in the folder that `SANDTABLE_DATA` names, by default
//!   `../shared/data` beside the checkout. With `SANDTABLE_REQUIRE_DATA=1` the test is not ignored and fails.
//! - `tool:NAME`: a program on `PATH`, in `/usr/sbin` or `/sbin`; `tool:A|B` is either.
//! - `python:NAME`: a module that `python3` can import.
//! - `loopback:`: the machine's own name means 127.0.0.1, or libnss-wrapper can make it so for a process.
//! - `runs:COMMAND`: a command that ends with 0.
//! - `cgroup:`: this user may make control groups (version 2), and the kernel can end them (5.14 or later).
//! - `file:PATH`: a file; `env:NAME`: a variable of the environment that is set.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proc_macro::{TokenStream, TokenTree};

/// See the crate.
#[proc_macro_attribute]
pub fn needs(wanted: TokenStream, test: TokenStream) -> TokenStream {
    let (mut why, mut watched) = (Vec::new(), String::new());
    for token in wanted {
        let TokenTree::Literal(literal) = token else { continue };
        let text = literal.to_string();
        let need = text.trim_matches('"');
        why.extend(lacking(need));
        if let Some(name) = need.strip_prefix("env:") {
            watched.push_str(&format!("const _: Option<&str> = option_env!({name:?});"));
        }
    }
    let mut out = tokens(&ignored(&why));
    out.extend(test);
    // Compiled anew where a variable says otherwise.
    out.extend(tokens(&watched));
    out.extend(tokens(
        "const _: [Option<&str>; 2] = [option_env!(\"SANDTABLE_DATA\"), option_env!(\"SANDTABLE_REQUIRE_DATA\")];",
    ));
    out
}

/// One attribute for all that is lacking: of several the first alone would be shown.
fn ignored(why: &[String]) -> String {
    if why.is_empty() { String::new() } else { format!("#[ignore = {:?}]", why.join("; ")) }
}

fn tokens(text: &str) -> TokenStream {
    text.parse().unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "what is on a machine is told by its environment")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Why a test can't run; `None` where it can.
fn lacking(need: &str) -> Option<String> {
    match need.split_once(':') {
        Some(("data", name)) => {
            let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
            let path = variable("SANDTABLE_DATA").map_or(beside, PathBuf::from).join(name);
            let absent = !path.exists() && variable("SANDTABLE_REQUIRE_DATA").is_none_or(|value| value == "0");
            absent.then(|| format!("no data `{name}`: SANDTABLE_DATA names its folder (README, Data of others)"))
        }
        Some(("tool", names)) => {
            let path = variable("PATH").unwrap_or_default();
            let folders = || path.split(':').chain(["/usr/sbin", "/sbin"]);
            let there = names.split('|').any(|name| folders().any(|folder| Path::new(folder).join(name).is_file()));
            (!there).then(|| format!("no `{}` on this machine", names.replace('|', "` or `")))
        }
        Some(("python", module)) => (!runs("python3", &format!("import {module}")))
            .then(|| format!("no Python module `{module}` on this machine")),
        Some(("loopback", _)) => {
            let own = r#"[ "$(getent ahostsv4 "$(hostname -s)" | awk 'NR==1 {print $1}')" = 127.0.0.1 ]"#;
            // The loader says so where it finds no such library.
            let script = format!(r#"{own} || [ -z "$(LD_PRELOAD=libnss_wrapper.so true 2>&1)" ]"#);
            (!runs("bash", &script))
                .then(|| "this machine's name is not 127.0.0.1: apt-get install libnss-wrapper".to_string())
        }
        Some(("runs", line)) => (!runs("sh", line)).then(|| format!("`{line}` does not run on this machine")),
        Some(("cgroup", _)) => {
            let script = "d=$(grep -m1 ' - cgroup2 ' /proc/self/mountinfo | cut -d' ' -f5)$(sed -n s/^0:://p /proc/self/cgroup) \
                && mkdir $d/sandtable-probe && test -f $d/sandtable-probe/cgroup.kill; it=$?; rmdir $d/sandtable-probe; exit $it";
            (!runs("sh", script)).then(|| "no control group (version 2) can be made on this machine".to_string())
        }
        Some(("file", path)) => (!Path::new(path).exists()).then(|| format!("no {path} on this machine")),
        Some(("env", name)) => variable(name).is_none().then(|| format!("{name} is not set")),
        _ => Some(format!(
            "`{need}` is nothing that a test can need: expected data:, tool:, python:, loopback:, runs:, cgroup:, file: or env:"
        )),
    }
}

/// Whether a program ends with 0 after `-c script`.
fn runs(program: &str, script: &str) -> bool {
    let status = Command::new(program).args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::{ignored, lacking};

    #[test]
    fn all_that_is_lacking_is_one_reason() {
        assert_eq!(ignored(&[]), "");
        let why = ["file:/nowhere", "env:SANDTABLE_NEVER_SET"].map(|need| lacking(need).expect("it is lacking"));
        let one = "#[ignore = \"no /nowhere on this machine; SANDTABLE_NEVER_SET is not set\"]";
        assert_eq!(ignored(&why), one);
    }
}
