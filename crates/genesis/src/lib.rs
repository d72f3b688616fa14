//! A plan to genesis, epoch config, node config and keys; byte-identical for one seed.
