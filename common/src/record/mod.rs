//! What DynamoDB sent: change records, attribute values, decimals, positions and times, as strict types of our own.

mod change;
mod decimal;
mod decode;
mod image;
mod json;
mod position;
mod reader;
mod record_json;
mod time;
mod value;
mod vocabulary;

pub use change::{BadRecord, Batch, ChangeRecord, Keys, Operation, StreamView};
pub use decimal::{Decimal, NotADecimal};
pub use decode::{decode, decode_record};
pub use image::{Image, OldImage};
pub use position::Position;
pub use time::Timestamp;
pub use value::{AttributeValue, Item};
pub use vocabulary::{AttributeId, Vocabulary};
