//! Scenario text to a checked scenario: units typed, defaults filled, every fault in one pass.
//!
//! Every key is declared once, in [`keys`]: its type, its default, its bounds and the sentence that explains it.
//! Reading, writing, suggestions and the key reference all go through that table, so they cannot disagree.
//! YAML stays behind this crate, and no file is opened here: the caller brings the text as a [`Source`].

mod amount;
mod bundled;
mod conflict;
mod fault;
pub mod keys;
mod load;
mod overrides;
pub mod reference;
mod reserved;
mod schema;
mod suggest;
mod text;
mod tree;
mod value;
mod write;

pub use amount::GasPrice;
pub use bundled::{bundled, resolve_name};
pub use fault::{Fault, Faults, Place};
pub use keys::{Chain, GoalKeys, Head, Load, Node, Scenario, Search, Trial};
pub use load::{Source, load};
pub use overrides::{Override, OverrideError};
pub use schema::{schema, schema_text};
pub use suggest::nearest;
pub use text::{ChainId, Description, Fraction, Name};
pub use tree::SCENARIO_BYTES_MAX;
