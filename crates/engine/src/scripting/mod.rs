//! Scripts: EVAL and functions, on Lua 5.1.
//!
//! Each thread has a Lua state of its own ([`vm`]), made when it first runs a script, in Redis's sandbox (`sandbox.lua`,
//! [`api`]). What scripts there are is shared ([`cache`], [`functions`]). A script runs on its connection's worker, under the
//! stripes of its keys; [`run`] tells what happens if it needs more of them, or more time.

mod api;
pub mod cache;
mod convert;
mod errors;
pub mod functions;
pub mod libs;
mod random;
pub mod run;
mod runner;
pub mod running;
pub mod shebang;
mod stand_ins;
pub mod vm;

use self::cache::Scripts;
use self::functions::Functions;
use self::running::RunningScripts;

/// What the server knows of scripts.
#[derive(Default)]
pub struct Scripting {
    /// EVAL's.
    pub scripts: Scripts,
    /// Libraries.
    pub functions: Functions,
    /// How scripts have set `cjson`.
    pub json: libs::cjson::Settings,
    /// Those that run apart from the workers.
    pub running: RunningScripts,
}
