//! What DynamoDB sent: change records, attribute values, decimals, positions and times, as strict types of our own.

mod decimal;
mod position;
mod time;
mod value;
mod vocabulary;

pub use decimal::Decimal;
pub use position::Position;
pub use time::Timestamp;
pub use value::{AttributeValue, Item};
pub use vocabulary::{AttributeId, Vocabulary};
