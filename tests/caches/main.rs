//! Caches.
