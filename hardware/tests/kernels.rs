//! The kernels that ship are those of their source: compiled anew by NVRTC where that is at hand.

use std::path::Path;
use std::process::Command;

use sandtable_needs::needs;

/// `SANDTABLE_NVRTC` names the folder of a `libnvrtc.so.12`, of CUDA 12.8: that of the Python package `nvidia-cuda-nvrtc-cu12`.
#[needs("env:SANDTABLE_NVRTC")]
#[test]
fn the_ptx_is_what_nvrtc_makes_of_this_source() {
    let Some(folder) = option_env!("SANDTABLE_NVRTC") else { unreachable!("the test is ignored then") };
    let here = std::env::current_exe().expect("this test");
    let tool = here.ancestors().nth(2).expect("a build folder").join("examples/kernels");
    assert!(Path::new(&tool).exists(), "{}: `cargo test` builds examples", tool.display());
    let ran = Command::new(tool).args(["--check", "--nvrtc", folder]).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let said = text(&ran.stdout);
    for file in ["families-75.ptx: as committed", "families-80.ptx: as committed"] {
        assert!(said.contains(file), "{said}");
    }
}
