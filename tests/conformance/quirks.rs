//! Where the embedded DynamoDB is known to differ from AWS. Each test states what AWS does and the memory with it, and what
//! the embedded one does instead; when that changes, the test fails and the quirk can go.
