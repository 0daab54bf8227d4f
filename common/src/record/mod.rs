//! What DynamoDB sent: change records, attribute values, decimals, positions and times, as strict types of our own.

mod change;
mod decimal;
mod decode;
mod identify;
mod image;
mod json;
mod layout;
mod path;
mod position;
mod reader;
mod record_json;
mod source;
mod time;
mod value;
mod vocabulary;

pub use change::{BadRecord, ChangeRecord, Operation, PrimaryKey, RecordBatch, StreamView};
pub use decimal::{Decimal, NotADecimal};
pub use decode::{RecordDecoder, decode};
pub use image::{Image, OldImage};
pub use path::AttributePath;
pub use position::Position;
pub use time::Timestamp;
pub use value::{AttributeValue, Item};
pub use vocabulary::{AttributeId, AttributeInterner};
