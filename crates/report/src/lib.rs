//! Run artefacts to terminal text, JSON and HTML.
