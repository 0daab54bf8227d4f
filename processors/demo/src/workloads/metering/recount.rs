//! The values to derive from the metering table, computed without the model.

use jiff::Timestamp;

use crate::exact::ExactNumber;
use crate::item::{SdkItem, TableItem, integer_of, number_of, text_of};
use crate::recount::{Recount, RollupSums, WorkloadOutcome, after};
use crate::rollups::RollupKey;

const DAY_SECONDS: i64 = 86_400;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| match call(item) {
        Some(call) => count_call(sums, item, &call),
        None if text_of(item, "SK") == "TENANT" => count_tenant(sums, item),
        None => {}
    });
    for image in &outcome.images {
        expire(&image.item, &mut recount);
    }
    recount.drop_expired(outcome.now);
    recount.average("error_rate", "errors", "calls");
    // Latencies and regions have no errors.
    for (key, measures) in &mut recount.rollups {
        if key.0.starts_with("API#") || key.1.starts_with("ROLLUP#REGION#") {
            measures.remove("error_rate");
        }
    }
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// A call: its tenant, its API and its time.
struct MeteredCall<'i> {
    tenant: &'i str,
    api: &'i str,
    seconds: i64,
    at: Timestamp,
}

impl MeteredCall<'_> {
    fn time(&self, format: &str) -> String {
        self.at.strftime(format).to_string()
    }

    /// The rollup of the call's tenant and API whose sort key is this time.
    fn bucket(&self, format: &str) -> RollupKey {
        RollupKey::new(format!("TENANT#{}#API#{}", self.tenant, self.api), self.time(format))
    }

    fn minute(&self) -> RollupKey {
        self.bucket("MINUTE#%Y-%m-%dT%H:%M")
    }

    fn hour(&self) -> RollupKey {
        self.bucket("HOUR#%Y-%m-%dT%H")
    }

    fn day(&self) -> RollupKey {
        self.bucket("DAY#%Y-%m-%d")
    }
}

fn call(item: &SdkItem) -> Option<MeteredCall<'_>> {
    let tenant = after(text_of(item, "PK"), "TENANT#")?;
    let (api, _) = after(text_of(item, "SK"), "CALL#")?.split_once('#')?;
    let at = Timestamp::from_millisecond(integer_of(item, "at")?).ok()?;
    Some(MeteredCall { tenant, api, seconds: at.as_second(), at })
}

fn count_call(sums: &mut RollupSums<'_>, item: &SdkItem, call: &MeteredCall<'_>) {
    let one = ExactNumber::one;
    let of_tenant = |sort: String| RollupKey::new(format!("TENANT#{}", call.tenant), sort);
    let status = integer_of(item, "status").unwrap_or_default();
    let units = number_of(item, "units").unwrap_or_default();
    let bytes = number_of(item, "bytes_out").unwrap_or_default();
    let mut measures = vec![("calls", one()), ("units", units), ("bytes_out", bytes)];
    measures.extend((status >= 500).then(|| ("errors", one())));
    measures.extend((status == 429).then(|| ("throttled", one())));
    let month = of_tenant(format!("ROLLUP#MONTH#{}", call.time("%Y-%m")));
    let total = of_tenant(format!("ROLLUP#API#{}", call.api));
    for key in [call.minute(), call.hour(), call.day(), month, total] {
        sums.add(key, &measures);
    }
    if let Some(latency) = integer_of(item, "latency_ms") {
        let bin = format!("latency_{:04}", (latency / 250).min(7) * 250);
        let everyone = RollupKey::new(format!("API#{}#{}", call.api, call.time("%Y-%m-%dT%H")), "ROLLUP");
        sums.add(everyone, &[("calls", one()), (&bin, one()), ("latency_sum", latency.into())]);
    }
    let region = text_of(item, "region");
    if !region.is_empty() {
        sums.add(of_tenant(format!("ROLLUP#REGION#{region}")), &[("calls", one())]);
    }
}

fn count_tenant(sums: &mut RollupSums<'_>, item: &SdkItem) {
    let plan = if text_of(item, "plan") == "free" { "free" } else { "paying" };
    let one = ExactNumber::one;
    sums.add(RollupKey::new("TENANTS", "ROLLUP"), &[("tenants", one()), (plan, one())]);
}

/// Minutes expire two days after they begin, hours 90 days.
fn expire(item: &SdkItem, recount: &mut Recount) {
    let Some(call) = call(item) else { return };
    let begun = |length: i64| call.seconds - call.seconds.rem_euclid(length);
    recount.expire_at(call.minute(), begun(60) + 2 * DAY_SECONDS);
    recount.expire_at(call.hour(), begun(3600) + 90 * DAY_SECONDS);
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    if let Some(api) = after(sort, "QUOTA#") {
        let key = RollupKey::new(partition, format!("ROLLUP#API#{api}"));
        let place = format!("{partition} {sort}");
        recount.mirror(&place, item, "units_used", recount.sum(&key, "units"));
    }
}
