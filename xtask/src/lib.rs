//! What tests of the workspace share with the tasks.

pub mod figures;
