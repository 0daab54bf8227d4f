//! TOML → [`super::Model`].
