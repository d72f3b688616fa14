//! Nothing but tests: what this workspace writes and reads, against NEAR's own crates and other people's
//! cryptography.
//!
//! Only encodings and the forms of answers are compared. The crates that NEAR publishes are at another protocol version than the one spoken
//! here (`tpsctl_near::PROTOCOL_VERSION`), so nothing that depends on the version, such as fees or limits, may be taken
//! from them.
