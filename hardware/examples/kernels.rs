//! Compiles the kernels with NVRTC, which needs neither a GPU nor a driver: `cargo run -p sandtable-hardware --example kernels
//! [--check]`. NVRTC is looked for where CUDA is, or in the folder that `--nvrtc DIR` names, as that of the Python package
//! `nvidia-cuda-nvrtc-cu12`. It should be that of CUDA 12.8: a driver assembles PTX of its own version and older ones, and that
//! is the oldest that we run on. With `--check` nothing is written: what is committed is compared, and machine code is made for every
//! architecture, since PTX is not all that can be wrong.

#![expect(unsafe_code, clippy::print_stdout, clippy::print_stderr, reason = "a tool: it loads libraries and prints")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cudarc::nvrtc::{CompileOptions, compile_ptx_with_opts};
use sandtable_hardware::nvidia::kernels::{SOURCE, TARGETS, heading};

const MACHINES: [&str; 6] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut check, mut folder) = (false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--check" => check = true,
            "--nvrtc" => folder = arguments.next().map(PathBuf::from),
            other => return fail(&format!("unknown argument {other}")),
        }
    }
    match compile(check, folder.as_deref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}

fn compile(check: bool, folder: Option<&Path>) -> Result<(), String> {
    let usual = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib"].map(PathBuf::from);
    let folders: Vec<PathBuf> = folder.map(Path::to_path_buf).into_iter().chain(usual).collect();
    let found = folders.iter().find(|folder| folder.join("libnvrtc.so.12").exists());
    let hint = "`pip download nvidia-cuda-nvrtc-cu12==12.8.93`, unpack it, and name its lib folder with --nvrtc";
    let found = found.ok_or_else(|| format!("no libnvrtc.so.12: {hint}"))?;
    load(found)?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/nvidia/kernels");
    let blake3 = blake3::hash(SOURCE.as_bytes()).to_hex().to_string();
    for (target, file) in TARGETS {
        let ptx = heading(&blake3) + &ptx(target)?;
        let path = here.join(file);
        if !check {
            std::fs::write(&path, &ptx).map_err(|error| format!("{}: {error}", path.display()))?;
            println!("{file}: {} bytes", ptx.len());
            continue;
        }
        let committed = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Another version of the compiler may write other registers: then only the source is compared.
        let version =
            |text: &str| text.lines().find(|line| line.contains("Cuda compilation tools")).map(str::to_string);
        match version(&committed) == version(&ptx) {
            true if committed != ptx => {
                return Err(format!("{file} is not what families.cu gives: run `just kernels`"));
            }
            true => println!("{file}: as committed"),
            false if committed.starts_with(&heading(&blake3)) => println!("{file}: of this source, by another NVRTC"),
            false => return Err(format!("{file} is of another source: run `just kernels`")),
        }
    }
    for machine in MACHINES {
        let options = CompileOptions { arch: Some(machine), ..CompileOptions::default() };
        let binary = compile_ptx_with_opts(SOURCE, options).map_err(|error| format!("{machine}: {error:?}"))?;
        println!("{machine}: {}", if binary.as_bytes().is_some() { "assembled" } else { "compiled" });
    }
    Ok(())
}

fn ptx(target: &'static str) -> Result<String, String> {
    let options = CompileOptions { arch: Some(target), name: Some("families.cu".into()), ..CompileOptions::default() };
    let ptx = compile_ptx_with_opts(SOURCE, options).map_err(|error| format!("{target}: {error:?}"))?;
    Ok(ptx.to_src().trim_end_matches('\0').to_string())
}

/// NVRTC opens its built-ins by name: both are loaded by path beforehand.
fn load(folder: &Path) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "sorted below")]
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // `libnvrtc-builtins` comes before `libnvrtc.`.
    names.sort();
    for path in names.into_iter().filter(|path| path.to_string_lossy().contains("/libnvrtc")) {
        // SAFETY: NVIDIA's own libraries, whose initialisers do nothing but register them.
        let library = unsafe { libloading::Library::new(&path) };
        std::mem::forget(library.map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(())
}
