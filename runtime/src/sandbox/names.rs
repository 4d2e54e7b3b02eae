//! The contract's interfaces, by the names that components have for them.

macro_rules! interfaces {
    ($($constant:ident = $name:literal,)*) => {
        $(pub(super) const $constant: &str = concat!("sandtable:policy/", $name, "@", contract_version!());)*
    };
}

/// How all of them begin, in any version.
pub(super) const POLICY: &str = "sandtable:policy/";

interfaces! {
    TYPES = "types",
    CLUSTER = "cluster",
    INTRODUCTIONS = "introductions",
    PREDICTOR = "predictor",
    LOG = "log",
    SCHEDULER = "scheduler",
    ADVICE = "advice",
    PROVIDER = "provider",
}
