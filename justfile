# List the recipes.
default:
    @just --list

# Rebuild the policy components, all or those named, and their manifest.
policies *names:
    cargo run --release -- policy build {{ names }}

# What CI runs.
check:
    bash .ci/run

# Accept changed snapshots; read the diff before you commit it.
bless:
    INSTA_UPDATE=always cargo test --workspace
    git diff --stat

# The full figures, not their cuts for tests.
figures:
    cargo run --release -- run experiments/specs/*.ron experiments/specs/philly/*.ron experiments/specs/sharing/*.ron
    cargo run --release -- run --check experiments/specs/geng2020/*.ron

# Whole runs and single decisions, sandboxed against native.
bench:
    cargo bench -p sandtable
