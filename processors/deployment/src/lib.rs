//! A deployment of Afterwrite as a whole: what it costs, the resources that it consists of, and whether it is healthy.
//!
//! | module | task |
//! |---|---|
//! | [`stream_filters`] | which records of a stream invoke a function |
//! | [`template`] | a deployment as a template of another tool than Terraform |
//! | [`cost`] | the monthly cost of a deployment |
//! | [`doctor`] | a deployment judged, with what to change |

pub mod cost;
pub mod doctor;
pub mod stream_filters;
pub mod template;
