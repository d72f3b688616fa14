//! The files of a node's home directory: genesis, epoch config, node config and key files.
