//! Random commands: seeded sequences from the families' templates, run on both sides in pipelines.

mod grammar;
mod run;
mod shrink;
mod templates;

pub use grammar::Generator;
pub use run::{Outcome, Plan, check_sequence, run};
pub use shrink::{shrink, touches};
pub use templates::{FAMILIES, FAMILIES_APART, NEWER_FAMILIES};
