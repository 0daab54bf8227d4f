//! Requests within the limits of a service.

/// Splits entries into requests of so many entries and bytes, in order. An entry that exceeds the bytes alone has a request of its own.
pub(crate) fn split_into_requests<T>(
    entries: Vec<T>,
    (most_entries, most_bytes): (usize, usize),
    bytes_of: impl Fn(&T) -> usize,
) -> Vec<Vec<T>> {
    let mut requests: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let size = bytes_of(&entry);
        bytes += size;
        match requests.last_mut() {
            Some(request) if request.len() < most_entries && bytes <= most_bytes => request.push(entry),
            Some(_) | None => {
                bytes = size;
                requests.push(vec![entry]);
            }
        }
    }
    requests
}
