//! `sandtable`: try GPU-cluster scheduling policies before you trust them.

fn main() -> std::process::ExitCode {
    // A defect has a code of its own, whatever it was; the standard library has said what.
    let code = std::panic::catch_unwind(sandtable::cli::main);
    std::process::ExitCode::from(code.unwrap_or(sandtable::error::ExitCode::Internal as u8))
}
