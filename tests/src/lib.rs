//! What Afterwrite's tests share.
