//! Full table exports, as DynamoDB writes them.

use std::io::Write as _;

use afterwrite_model::record::{Item, Timestamp};
use base64::Engine as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use md5::{Digest as _, Md5};
use serde_json::json;

use super::world::image_json;

/// The objects of an export of `table` below `prefix`, with so many data files.
pub(crate) fn full_export(
    items: &[Item],
    table: &str,
    exported_at: Timestamp,
    prefix: &str,
    files: usize,
) -> Vec<(String, Vec<u8>)> {
    let lines: Vec<String> =
        items.iter().map(|item| json!({ "Item": image_json(item) }).to_string()).collect();
    let (mut objects, mut manifest) = (Vec::new(), String::new());
    for (index, lines) in lines.chunks(lines.len().div_ceil(files).max(1)).enumerate() {
        let mut file = GzEncoder::new(Vec::new(), Compression::fast());
        file.write_all((lines.join("\n") + "\n").as_bytes()).unwrap();
        let file = file.finish().unwrap();
        let key = format!("{prefix}/data/{index:06}.json.gz");
        let checksum = base64::engine::general_purpose::STANDARD.encode(Md5::digest(&file));
        let line = json!({ "itemCount": lines.len(), "md5Checksum": checksum, "dataFileS3Key": key });
        manifest.push_str(&format!("{line}\n"));
        objects.push((key, file));
    }
    let summary = json!({
        "exportTime": exported_at.to_string(),
        "exportType": "FULL_EXPORT",
        "outputFormat": "DYNAMODB_JSON",
        "tableArn": format!("arn:aws:dynamodb:dynoxide:000000000000:table/{table}"),
    });
    objects.push((format!("{prefix}/manifest-files.json"), manifest.into_bytes()));
    objects.push((format!("{prefix}/manifest-summary.json"), summary.to_string().into_bytes()));
    objects
}
