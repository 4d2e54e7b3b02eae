//! One binary for all integration tests: a link of wasmtime each would cost more than they do.

mod attacks;
mod authors;
mod bad_specs;
mod beginnings;
mod browser;
mod capture;
mod claims;
mod cli;
mod components;
mod corpus;
mod deadlines;
mod decisions;
mod docs;
mod edits;
mod elastic;
mod elasticflow;
mod engine;
mod evil;
mod faults;
mod fgd;
mod fuzz;
mod goldens;
mod gpus;
mod help;
mod hived;
mod hostile;
mod identity;
mod json_specs;
mod kube;
mod layout;
mod leases;
mod leftovers;
mod lifo;
mod lines;
mod live;
mod matrix;
mod measuring;
mod mlp;
mod models;
mod muri;
/// Policies compiled in, as the benchmarks have them.
#[path = "../../benches/native/mod.rs"]
mod native;
mod nodes;
mod orders;
mod pairs;
mod parts;
mod predictors;
mod properties;
mod python;
mod readme;
mod recorded;
mod reference;
mod results;
mod scoring;
mod script;
mod shadow;
mod shockwave;
mod sia;
mod slurm;
mod slurm_backfill;
mod states;
mod store;
mod strangers;
mod submitting;
mod suspended;
mod takeover;
mod tidy;
mod what_if;

/// The guests of the sandbox's own tests, here as files for the command.
#[path = "../../../runtime/tests/adversarial/guest.rs"]
#[expect(dead_code, reason = "shared with the sandbox's tests, which use all of it")]
mod guest;
mod queues;
