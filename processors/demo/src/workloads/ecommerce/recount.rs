//! The values to derive from the e-commerce table, computed without the model.

use std::collections::BTreeMap;

use crate::exact::ExactNumber;
use crate::item::{ItemValue, SdkItem, TableItem, number_of, text_of, value_at};
use crate::recount::{ExtremeRule, Recount, RollupSums, WorkloadOutcome, after};
use crate::rollups::RollupKey;
use crate::workloads::tools::ksuid_day;

/// The customer of each order that was ever written.
type OrderCustomers = BTreeMap<String, String>;

pub(super) fn recount(outcome: &WorkloadOutcome) -> Recount {
    let orders = outcome.images.iter().filter_map(|image| order(&image.item));
    let customers: OrderCustomers =
        orders.map(|(customer, order)| (order.to_owned(), customer.to_owned())).collect();
    let mut recount = Recount::of(outcome, |sums, TableItem { item, .. }| {
        if order(item).is_some() {
            count_order(sums, item);
        } else if let Some((order, id)) = line(item) {
            count_line(sums, item, [order, id], &customers);
        } else {
            count_addresses(sums, item);
        }
    });
    outcome.images.iter().for_each(|image| see(&image.item, &mut recount));
    recount.average("average_order", "total_spent", "order_count");
    outcome.items.iter().for_each(|stored| mirror(&stored.item, &mut recount));
    recount
}

/// The customer and the id of an order.
fn order(item: &SdkItem) -> Option<(&str, &str)> {
    Some((after(text_of(item, "PK"), "CUSTOMER#")?, after(text_of(item, "SK"), "#ORDER#")?))
}

/// The order and the id of an order item.
fn line(item: &SdkItem) -> Option<(&str, &str)> {
    after(text_of(item, "SK"), "ORDER#")?.split_once("#ITEM#")
}

fn count_order(sums: &mut RollupSums<'_>, item: &SdkItem) {
    let Some((customer, _)) = order(item) else { return };
    let (status, one) = (text_of(item, "status"), ExactNumber::one);
    let amount = number_of(item, "amount").unwrap_or_default();
    let items = number_of(item, "number_of_items").unwrap_or_default();
    if is_revenue(status) {
        let measures = [("order_count", one()), ("total_spent", amount.clone()), ("items_ordered", items)];
        sums.add(orders(customer), &measures);
    }
    if status == "CART" {
        return;
    }
    let day = RollupKey::new(format!("ORDERS#{}", day(item)), "ROLLUP");
    let status = status.to_lowercase();
    let mut measures = vec![("orders", one()), (status.as_str(), one())];
    if status != "cancelled" {
        measures.push(("amount", amount));
    }
    sums.add(day, &measures);
}

fn count_line(sums: &mut RollupSums<'_>, item: &SdkItem, [order, id]: [&str; 2], customers: &OrderCustomers) {
    let units = number_of(item, "quantity").unwrap_or_default();
    let price = units.times(&number_of(item, "price").unwrap_or_default());
    let (one, customer) = (ExactNumber::one, customers.get(order).map_or("", String::as_str));
    let of_order = [("lines", one()), ("units", units.clone()), ("subtotal", price.clone())];
    sums.add(lines(customer, order), &of_order);
    let of_item = [("order_lines", one()), ("units", units), ("revenue", price)];
    sums.add(RollupKey::new(format!("ITEM#{id}"), "ROLLUP#SALES"), &of_item);
    let ordered = ksuid_day(order);
    sums.add(RollupKey::new(format!("SALES#{ordered}"), format!("ITEM#{id}")), &of_item);
    let month = format!("ROLLUP#MONTH#{}", ordered.get(..7).unwrap_or_default());
    sums.add(RollupKey::new(format!("ITEM#{id}"), month), &of_item);
}

fn count_addresses(sums: &mut RollupSums<'_>, customer: &SdkItem) {
    let addresses = value_at(customer, "addresses").and_then(|addresses| addresses.as_m().ok());
    for (kind, address) in addresses.into_iter().flatten() {
        let country = address.as_m().ok().map_or("", |address| text_of(address, "state"));
        let mut measures = vec![("addresses", ExactNumber::one())];
        measures.extend((kind == "home").then(|| ("homes", ExactNumber::one())));
        sums.add(RollupKey::new(format!("ADDRESSES#{country}"), "ROLLUP"), &measures);
    }
}

/// Values that never go back: the largest order, the first and the last day.
fn see(item: &SdkItem, recount: &mut Recount) {
    let Some((customer, _)) = order(item).filter(|_| is_revenue(text_of(item, "status"))) else { return };
    let (key, day) = (orders(customer), ItemValue::Text(day(item).to_owned()));
    let amount = ItemValue::Number(number_of(item, "amount").unwrap_or_default());
    recount.see(&key, "largest_order", amount, ExtremeRule::Largest);
    recount.see(&key, "first_order_day", day.clone(), ExtremeRule::Smallest);
    recount.see(&key, "last_order_day", day, ExtremeRule::Largest);
}

fn mirror(item: &SdkItem, recount: &mut Recount) {
    let (partition, sort) = (text_of(item, "PK"), text_of(item, "SK"));
    let place = format!("{partition} {sort}");
    if let Some((customer, order)) = order(item) {
        let key = lines(customer, order);
        for (path, name) in [("line_count", "lines"), ("units", "units"), ("subtotal", "subtotal")] {
            recount.mirror(&place, item, path, recount.sum(&key, name));
        }
    } else if let Some(customer) = after(partition, "CUSTOMER#") {
        let key = orders(customer);
        for name in ["order_count", "total_spent"] {
            recount.mirror(&place, item, name, recount.sum(&key, name));
        }
        recount.mirror(&place, item, "last_order_day", recount.computed(&key, "last_order_day"));
    }
}

/// Whether an order of this status is revenue.
fn is_revenue(status: &str) -> bool {
    !["CART", "CANCELLED"].contains(&status)
}

fn day(item: &SdkItem) -> &str {
    text_of(item, "created_at").get(..10).unwrap_or_default()
}

fn orders(customer: &str) -> RollupKey {
    RollupKey::new(format!("CUSTOMER#{customer}"), "ROLLUP#ORDERS")
}

fn lines(customer: &str, order: &str) -> RollupKey {
    RollupKey::new(format!("CUSTOMER#{customer}"), format!("ROLLUP#ORDER#{order}"))
}
