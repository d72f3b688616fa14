//! Drives the stages of a run; owns its tasks, their cancellation and the run directory; emits events, never prints.
//!
//! Start reading at [`run()`]: the stages in order, and teardown whatever happens.

mod clock;
mod error;
mod events;
mod host;
mod hunt;
mod network;
mod nodes;
mod prepare;
mod rebuild;
mod recover;
mod run;
mod rundir;
mod summary;
mod teardown;
mod trial;
mod up;
mod watch;

pub use error::{Category, ControllerError};
pub use host::local_capabilities;
pub use prepare::{IndexGenesis, RunRequest};
pub use rebuild::rebuild;
pub use run::{FinishedRun, run, write_report};
pub use rundir::RunDir;
pub use teardown::{NodeStatus, StatusReport, down, status};
pub use up::{InjectRequest, inject, up};
