//! Cases E. Names, secrets, hostile text.
