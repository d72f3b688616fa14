//! What whoever started a node can do about its failure.

use std::io;

use super::NodeError;

impl NodeError {
    /// Whether the home directory is at fault: nothing was started then.
    pub fn is_input(&self) -> bool {
        matches!(
            self,
            Self::ReadHome(_)
                | Self::Parse { .. }
                | Self::Genesis { .. }
                | Self::Config { .. }
                | Self::Supply { .. }
        )
    }

    /// What helps, as a sentence without its full stop. None where the message says it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::ReadHome(source) if source.kind() == io::ErrorKind::NotFound => Some(
                "a home directory holds genesis.json, config.json and node_key.json; `tpsctl up` makes some below its run"
                    .to_owned(),
            ),
            Self::Parse { .. } | Self::Config { .. } => Some("mend the file, or make the home directory anew".to_owned()),
            Self::Supply { .. } => {
                Some("set `total_supply` to the sum of `amount` and `locked` of all accounts".to_owned())
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => Some(
                "end the process that has the port (`ss -ltnp` shows it), or change the address in config.json"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}
