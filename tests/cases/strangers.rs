//! Cases F. Tables that other writers touched.
