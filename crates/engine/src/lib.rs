//! 
pub mod config;
