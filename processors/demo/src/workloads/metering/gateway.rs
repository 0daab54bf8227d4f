//! One gateway's tenants: their calls, their plans, their quotas.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::item::{SdkItem, with};
use crate::script::{PAST, ScriptLane};
use crate::workloads::tools::{LaneWriter, chance, key, moment, new_id, one_of};

/// The table's name, as the model knows it.
pub(super) const TABLE: &str = "MeteringTable";
/// The service's APIs.
pub(super) const APIS: [&str; 3] = ["geocode", "route", "tiles"];

const PLANS: [&str; 3] = ["free", "team", "enterprise"];
const REGIONS: [&str; 2] = ["eu-west-1", "us-east-1"];
const STATUSES: [u16; 8] = [200, 200, 200, 200, 204, 404, 429, 503];

/// Writes some of the tenants, one after the other.
#[derive(Debug)]
pub(super) struct GatewayWriter {
    pub(super) random: Rng,
    pub(super) tenants: Vec<String>,
    pub(super) now: Timestamp,
}

impl GatewayWriter {
    /// A call. Some have no latency or no region, and old gateways write the units as a text.
    #[expect(clippy::indexing_slicing, reason = "a JSON object: indexing adds or replaces a member")]
    fn call(&mut self, round: usize) -> Value {
        let random = &mut self.random;
        let at = moment(random, self.now, round).as_millisecond() + random.i64(0..1000);
        let units = random.i64(1..=40);
        let mut call = json!({
            "at": at, "status": one_of(random, &STATUSES), "bytes_out": random.i64(0..100_000),
            "units": if chance(random, 6) { json!(units.to_string()) } else { json!(units) },
        });
        if chance(random, 92) {
            // From less than one millisecond to beyond the last bin.
            let slowest = one_of(random, &[3, 80, 600, 20_000]);
            call["latency_ms"] = json!(random.i64(0..slowest));
        }
        if chance(random, 80) {
            call["region"] = json!(one_of(random, &REGIONS));
        }
        call
    }

    fn change_later(&mut self, tenant: &str, call: SdkItem, called: &SdkItem, lane: &mut ScriptLane) {
        let random = &mut self.random;
        match random.u8(..100) {
            // A credit, or a corrected latency.
            0..8 => lane.set(TABLE, call, json!({ "units": random.i64(0..=3) })),
            8..14 => lane.set(TABLE, call, json!({ "latency_ms": random.i64(0..30_000) })),
            14..22 => lane.delete(TABLE, call),
            // Deleted by time to live: it stays counted.
            22..34 => lane.set(TABLE, call, json!({ "ttl": PAST })),
            // The call of another tenant.
            34..40 => {
                let Some(other) = random.choice(&self.tenants).filter(|other| *other != tenant) else {
                    return;
                };
                let mut moved = called.clone();
                moved.extend(with(SdkItem::new(), json!({ "PK": format!("TENANT#{other}") })));
                lane.delete(TABLE, call);
                lane.put(TABLE, moved);
            }
            _ => {}
        }
    }

    fn change_tenant(&mut self, tenant: &str, lane: &mut ScriptLane) {
        let random = &mut self.random;
        match random.u8(..100) {
            0..6 => lane.set(TABLE, tenant_key(tenant), json!({ "plan": one_of(random, &PLANS) })),
            // Saved as a whole by a client with a number of its own.
            6..12 => {
                let api = one_of(random, &APIS);
                lane.put(TABLE, with(quota(tenant, api, random.i64(1..=90)), json!({ "units_used": 1 })));
            }
            12..15 => {
                lane.delete(TABLE, tenant_key(tenant));
                lane.put(TABLE, with(tenant_key(tenant), json!({ "plan": one_of(random, &PLANS) })));
            }
            _ => {}
        }
    }
}

fn tenant_key(tenant: &str) -> SdkItem {
    key(&format!("TENANT#{tenant}"), "TENANT")
}

fn quota(tenant: &str, api: &str, units: i64) -> SdkItem {
    with(key(&format!("TENANT#{tenant}"), &format!("QUOTA#{api}")), json!({ "units": 1000 * units }))
}

impl LaneWriter for GatewayWriter {
    fn open(&mut self, lane: &mut ScriptLane) {
        for tenant in &self.tenants {
            let plan = one_of(&mut self.random, &PLANS);
            lane.put(TABLE, with(tenant_key(tenant), json!({ "plan": plan })));
            lane.put_together(TABLE, APIS.map(|api| quota(tenant, api, 10)).to_vec());
        }
    }

    fn write_round(&mut self, calls: u64, round: usize, lane: &mut ScriptLane) {
        for _ in 0..calls {
            let Some(tenant) = self.random.choice(&self.tenants).cloned() else { return };
            let sort = format!("CALL#{}#{}", one_of(&mut self.random, &APIS), new_id(&mut self.random));
            let key = key(&format!("TENANT#{tenant}"), &sort);
            let call = with(key.clone(), self.call(round));
            lane.put(TABLE, call.clone());
            self.change_later(&tenant, key, &call, lane);
            self.change_tenant(&tenant, lane);
        }
    }
}
