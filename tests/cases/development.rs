//! Cases I. The first hour with `dev`.
