//! Cases B. Proof that proves.
