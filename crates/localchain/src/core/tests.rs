mod attacks;
mod bounds;
mod counting;
pub(super) mod fixture;
mod forks;
mod network;
mod restart;
mod tallies;
mod topologies;
