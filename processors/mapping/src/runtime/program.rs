//! A program that is a function.

use std::path::PathBuf;

/// A program that speaks the Lambda Runtime API.
#[derive(Clone, Debug)]
pub struct FunctionProgram {
    /// The function's name.
    pub name: String,
    /// The program.
    pub path: PathBuf,
    /// Environment variables in addition to the variables of this process and of Lambda.
    pub variables: Vec<(String, String)>,
}
