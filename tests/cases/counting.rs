//! Cases D. One path from item to number.
