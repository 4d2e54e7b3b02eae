//! Weights and profiles that the binary carries, so that an example works outside of a checkout as in it.

/// Weights by file name, as in `policies/predictors/weights`.
static WEIGHTS: [(&str, &[u8]); 11] = [
    ("bias-synthetic.json", include_bytes!("../../../../policies/predictors/weights/bias-synthetic.json")),
    ("forest-synthetic.json", include_bytes!("../../../../policies/predictors/weights/forest-synthetic.json")),
    ("iapp-synthetic.json", include_bytes!("../../../../policies/predictors/weights/iapp-synthetic.json")),
    ("iasp-gavel-fit-fifth.json", include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit-fifth.json")),
    (
        "iasp-gavel-fit-held-out.json",
        include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit-held-out.json"),
    ),
    ("iasp-gavel-fit-k80.json", include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit-k80.json")),
    ("iasp-gavel-fit-p100.json", include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit-p100.json")),
    (
        "iasp-gavel-fit-twentieth.json",
        include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit-twentieth.json"),
    ),
    ("iasp-gavel-fit.json", include_bytes!("../../../../policies/predictors/weights/iasp-gavel-fit.json")),
    ("iasp-gavel-measured.json", include_bytes!("../../../../policies/predictors/weights/iasp-gavel-measured.json")),
    ("iasp-synthetic.json", include_bytes!("../../../../policies/predictors/weights/iasp-synthetic.json")),
];

/// Profiles by file name, as in `experiments/specs/profiles`.
static PROFILES: [(&str, &str); 6] = [
    ("gavel-fit.ron", include_str!("../../../specs/profiles/gavel-fit.ron")),
    ("pollux-fit.ron", include_str!("../../../specs/profiles/pollux-fit.ron")),
    ("stand-in.ron", include_str!("../../../specs/profiles/stand-in.ron")),
    ("synthetic.ron", include_str!("../../../specs/profiles/synthetic.ron")),
    ("vision-float.ron", include_str!("../../../specs/profiles/vision-float.ron")),
    ("vision-half.ron", include_str!("../../../specs/profiles/vision-half.ron")),
];

/// The weights of this file name.
pub fn weights(name: &str) -> Option<&'static [u8]> {
    WEIGHTS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

/// The file names of all weights.
pub fn weight_names() -> impl Iterator<Item = &'static str> {
    WEIGHTS.iter().map(|(name, _)| *name)
}

/// The profile of this file name.
pub fn profile(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The file names of all profiles.
pub fn profile_names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn the_binary_carries_every_file_of_both_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let names = |folder: &str| -> Vec<String> {
            let paths = sandtable_core::input::sorted(&root.join(folder)).expect("a folder");
            paths.iter().map(|path| path.file_name().expect("a name").to_string_lossy().to_string()).collect()
        };
        assert_eq!(names("../../policies/predictors/weights"), weight_names().collect::<Vec<_>>());
        assert_eq!(names("../specs/profiles"), profile_names().collect::<Vec<_>>());
    }
}
