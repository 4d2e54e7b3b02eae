//! Programs that build policies.

use std::path::PathBuf;
use std::process::Command;

use sandtable_core::error::Error;

/// Runs a program that builds the file `what`.
pub(super) fn ran(command: &mut Command, what: &str) -> Result<(), Error> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(|error| Error::file("run", &program, &error))?;
    if output.status.success() {
        return Ok(());
    }
    // What the tool was doing itself says nothing of the policy.
    let of = |bytes: &[u8]| {
        let said = String::from_utf8_lossy(bytes);
        said.split("\nStack backtrace:").next().unwrap_or_default().trim().to_string()
    };
    let said = [&output.stderr[..], &output.stdout[..]].map(of);
    Err(Error::usage(format!("`{what}` does not build ({}):\n{}", program.display(), said.join("\n").trim())))
}

/// Whether a program is there and answers.
pub(super) fn answers(words: &[&str], argument: &str) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).arg(argument).output();
    output.is_ok_and(|output| output.status.success())
}
