//! The injector, behind the interface that a remote agent will use.
