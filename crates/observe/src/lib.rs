//! Following blocks and scraping metrics, with explicit gaps.
