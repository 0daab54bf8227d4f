//! DynamoDB's data as strict types: change records, attribute values, decimals, positions and times.
//!
//! In: the bytes of a Lambda event, or a line of the archive. Out: a [`RecordBatch`] of [`ChangeRecord`]s, or a
//! [`BadRecord`] in the place of each malformed record. Pure: no I/O, no clock.
//!
//! ```text
//! bytes ─▶ decode: records, fields ─▶ image_json: values, keys ─▶ Image: the attributes that the model names (interner)
//!            │             └──── json_reader: JSON, guided by the shape of the records before (shape_cache)
//!            │    item_json: single items and values, with the same decoder
//!            └▶ bad_record: the parts of a malformed record that can be read
//! ```

mod bad_record;
mod change;
mod decimal;
mod decode;
mod failure;
mod image;
mod image_json;
mod interner;
mod item_json;
mod json_reader;
mod key;
mod members;
mod old_image;
mod path;
mod position;
mod secret_paths;
mod shape_cache;
mod time;
mod time_digits;
mod time_id;
mod time_zone;
mod value;

pub use change::{BadRecord, ChangeRecord, Operation, RecordBatch, StreamView};
pub use decimal::{Decimal, NotADecimal};
pub use decode::{RecordDecoder, decode};
pub use failure::RecordFailure;
pub use image::Image;
pub use interner::{AttributeId, AttributeInterner};
pub use item_json::{
    TypedItem, decode_item, decode_value, dynamodb_json, plain_json, read_item_line, write_item_line,
};
pub use key::PrimaryKey;
pub use members::JsonMembers;
pub use old_image::OldImage;
pub(crate) use path::unquoted_places;
pub use path::{AttributePath, InvalidPath, written_name};
pub use position::Position;
pub(crate) use secret_paths::{AttributeSecrecy, SecretPaths, secrecy};
pub use time::Timestamp;
pub use time_zone::NamedZone;
pub(crate) use time_zone::{first_moment, local_time};
pub use value::{AttributeValue, Item};
