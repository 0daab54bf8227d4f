//! Cases G. Previews show what will happen.
