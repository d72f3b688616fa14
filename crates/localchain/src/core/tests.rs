mod attacks;
pub(super) mod fixture;
mod forks;
mod network;
mod restart;
