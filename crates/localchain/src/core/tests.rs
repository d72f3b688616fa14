mod fixture;
mod network;
