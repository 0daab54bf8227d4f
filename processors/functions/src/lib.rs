//! Afterwrite's Lambda functions: the stages one batch passes through, and the functions that host them.
