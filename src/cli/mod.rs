//! The command line.

pub mod capture;
