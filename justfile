# List the recipes.
default:
    @just --list

# Rebuild the policy components, all or those named, and their manifest.
policies *names:
    cargo run --release -- policy build {{ names }}

# Rewrite the catalogue of models from the graphs in experiments/inputs/src/facts/zoo.
models:
    cargo run --release --example models > experiments/models.ron.new
    mv experiments/models.ron.new experiments/models.ron

# Rewrite the shipped profiles from what they are made of, and the weights trained on them.
profiles:
    cargo run --release --example profiles
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --observed 0.5 -o policies/predictors/weights/iasp-gavel-fit.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --gpu V100-SXM2-16GB --observed 0.2 -o policies/predictors/weights/iasp-gavel-fit-fifth.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --gpu V100-SXM2-16GB --observed 0.05 -o policies/predictors/weights/iasp-gavel-fit-twentieth.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --gpu V100-SXM2-16GB --observed 0.5 --hold-out 0.3 -o policies/predictors/weights/iasp-gavel-fit-held-out.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --gpu P100-PCIE-16GB --used-on V100-SXM2-16GB --observed 0.5 -o policies/predictors/weights/iasp-gavel-fit-p100.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/gavel-fit.ron --gpu K80 --used-on V100-SXM2-16GB --observed 0.5 -o policies/predictors/weights/iasp-gavel-fit-k80.json
    cargo run --release -- predictor train iasp --profile ../shared/data/gavel/oracle_throughputs.json --observed 0.5 -o policies/predictors/weights/iasp-gavel-measured.json
    cargo run --release -- predictor train iasp --profile experiments/specs/profiles/synthetic.ron --observed 0.5 -o policies/predictors/weights/iasp-synthetic.json
    cargo run --release -- predictor train iapp --profile experiments/specs/profiles/synthetic.ron --observed 0.5 -o policies/predictors/weights/iapp-synthetic.json
    cargo run --release -- predictor train bias --profile experiments/specs/profiles/synthetic.ron --observed 0.5 -o policies/predictors/weights/bias-synthetic.json
    cargo run --release -- predictor train forest --profile experiments/specs/profiles/synthetic.ron -o policies/predictors/weights/forest-synthetic.json

# Compile the kernels of the built-in GPU work; NVRTC is the folder of a libnvrtc.so.12 of CUDA 12.8. `--check` compares.
kernels nvrtc *flags:
    cargo run --release -p sandtable-hardware --example kernels -- --nvrtc {{ nvrtc }} {{ flags }}

# Rewrite the notices of third parties that `sandtable reference licences` prints.
licences:
    cargo run --release --quiet --example licences > experiments/licences.txt.new
    mv experiments/licences.txt.new experiments/licences.txt

# Write a CycloneDX bill of materials, for a release.
sbom file="sandtable.cdx.json":
    cargo run --release --quiet --example licences -- --sbom > {{ file }}

# Refuse what may not be linked, by deny.toml; asks for the advisories of today.
deny:
    command -v cargo-deny >/dev/null || cargo install cargo-deny --locked
    cargo deny check

# Fuzz every target for a tenth of so many minutes, as many at a time as there are cores, and keep what is new in the corpus.
fuzz minutes="10" *targets:
    .ci/fuzz $(({{ minutes }} * 60 / 6)) --grow {{ targets }}

# Rewrite the page of speeds from runs on this machine; takes minutes.
bench-table:
    cargo bench -q -p sandtable --bench speed > docs/src/reference/speed.md.new
    mv docs/src/reference/speed.md.new docs/src/reference/speed.md

# Make what is handed out: an archive, its SHA-256, a wheel; builds the profile `dist`.
release:
    .ci/release

# What CI runs.
check:
    bash .ci/run

# Try other cases of the loop's property tests, N of each.
explore n="20000":
    PROPTEST_CASES={{ n }} PROPTEST_RNG_SEED=$(date +%s) cargo test -p sandtable-runtime --test invariants

# Accept changed snapshots; read the diff before you commit it.
bless:
    INSTA_UPDATE=always cargo test --workspace
    git diff --stat

# The full figures, not their cuts for tests; a claim that fails unexpectedly, or holds unexpectedly, is an error.
figures:
    cargo run --release -- run experiments/specs/*.ron experiments/specs/philly/*.ron experiments/specs/sharing/*.ron experiments/specs/sia2023/types.ron
    cargo run --release -- run experiments/specs/thanapol2023/measures.ron experiments/specs/horus2022/month.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/geng2020/*.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/thanapol2023/measured.ron experiments/specs/thanapol2023/fitted.ron experiments/specs/thanapol2023/rounds.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/horus2022/measured.ron experiments/specs/horus2022/batch.ron experiments/specs/horus2022/predictors.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/deepboot2023/*.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/sharing/lucid.ron experiments/specs/sia2023/one-type.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/shockwave2023/*.ron experiments/specs/elasticflow2023/*.ron experiments/specs/fgd2023/*.ron experiments/specs/muri2022/*.ron
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/chronus2021/*.ron experiments/specs/hived2020/*.ron experiments/specs/queues/*.ron
    # A quarter of an hour; its table is committed beside it.
    cargo run --release -- run --check --allow-inconclusive --expected experiments/expected-failures.ron experiments/specs/pollux2021/published.ron > experiments/specs/pollux2021/published.txt

# Every policy of a kind on the same jobs, and the page of their ranks; two hours on two cores.
tournament:
    cargo run --release -- run experiments/specs/tournament/*.ron --store target/tournament
    cargo run --release -- rank experiments/specs/tournament --store target/tournament --output docs/src/reference/tournament.md

# Write the table of claims and the figures of the book from the results of `just figures`.
claims:
    cargo run --release -- claims experiments/specs --expected experiments/expected-failures.ron --output docs/src/reference/claims.md
    for paper in geng2020 thanapol2023 horus2022 deepboot2023; do cargo run --release -- claims experiments/specs/$paper/robustness.ron --figure docs/src/figures/$paper.svg; done

# Whole runs and single decisions, sandboxed against native.
bench:
    cargo bench -p sandtable
