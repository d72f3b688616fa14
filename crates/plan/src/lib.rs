//! A scenario and what the provider can do, to a run plan with nothing left to decide.
