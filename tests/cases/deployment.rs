//! Cases H. Deployment.
