//! Judging a trial and searching for the knee.
