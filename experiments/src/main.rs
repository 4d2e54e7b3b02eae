//! `sandtable`: try GPU-cluster scheduling policies before you trust them.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(sandtable::cli::main())
}
