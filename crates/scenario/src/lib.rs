//! Scenario text to a checked scenario: units typed, defaults filled, every fault in one pass.
