//! The simulation is a test program: see `main.rs`. It is a package of its own, because it runs millions of writes and is optimised.
