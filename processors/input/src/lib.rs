//! Change records from files, folders and buckets.
//!
//! ```text
//! RecordInput ─▶ InputObject, in order ─▶ RecordReader ─▶ the JSON of each record, as Lambda delivers it
//! a path, -,     a file, or an object     gzip or plain
//! s3://…         of a bucket
//! ```
//!
//! | form | records |
//! |---|---|
//! | JSON lines of change records: the archive, the output of `afterwrite record` | each line |
//! | a Lambda event, on one line or several | its `Records` |
//! | the object that Lambda writes to an on-failure destination in S3 | the records of the event in `payload` |
//! | a line of a recording, `{"shard": …, "record": …}` | `record` |
//!
//! Items ([`item_json`]) are read in these forms: lines of a table export, `{"Item": …}`; the output of `aws dynamodb scan`, `{"Items": […]}`; items in
//! DynamoDB's JSON or in plain JSON, one after the other or in a list.

pub mod item_json;
mod items;
mod location;
mod object;
mod range;
mod reader;
mod stored;
mod stream;
mod texts;
mod undone;

pub use self::location::RecordInput;
pub use self::object::{InputObject, OpenedInput};
pub use self::range::TimeRange;
pub use self::reader::{RecordReader, RejectedText};
pub use self::stored::{InputContent, StoredInput, bucket_names};
pub use self::stream::InputStream;
pub use self::undone::UndoneChanges;
