//! The program as people use it: one test binary, so that it links once.

#[cfg(test)]
mod bad_input;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod localnode;
#[cfg(test)]
mod network;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod support;
#[cfg(test)]
mod topologies;
