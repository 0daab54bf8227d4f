//! Operations on a deployed table: jobs that fill, verify, repair and replay what is derived from it.

pub mod jobs;
