//! The seeded transaction stream, nonce lanes, the throwaway-key signer and the pacer.
