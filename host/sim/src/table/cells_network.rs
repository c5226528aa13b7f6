//! Cells of the kinds of the network, besides Services.

use jiff::Timestamp;
use serde_json::Value;

use super::format::{age, joined, list, text, text_or};

/// Addresses or ports that a cell shows.
const SHOWN: usize = 3;

/// The first texts, and the number of the others.
fn first(texts: &[String]) -> String {
    match texts.len() {
        0 => "<unset>".to_owned(),
        1..=SHOWN => texts.join(","),
        n => format!("{} + {} more...", texts[..SHOWN].join(","), n - SHOWN),
    }
}

pub(super) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut texts = Vec::new();
    for subset in list(&object["subsets"]) {
        let addresses = || list(&subset["addresses"]).iter().map(|address| text(&address["ip"]));
        let ports = list(&subset["ports"]);
        // Those of a headless Service may have none.
        if ports.is_empty() {
            texts.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            texts.extend(addresses().map(|address| match address.contains(':') {
                true => format!("[{address}]:{}", port["port"]),
                false => format!("{address}:{}", port["port"]),
            }));
        }
    }
    let shown = if list(&object["subsets"]).is_empty() { "<none>".to_owned() } else { first(&texts) };
    vec![object["metadata"]["name"].clone(), shown.into(), age(object, now)]
}

pub(super) fn endpoint_slice(slice: &Value, now: Timestamp) -> Vec<Value> {
    let port = |port: &Value| match &port["port"] {
        Value::Null => text_or(&port["name"], "*").to_owned(),
        number => number.to_string(),
    };
    let ports: Vec<String> = list(&slice["ports"]).iter().map(port).collect();
    let addresses = list(&slice["endpoints"]).iter().flat_map(|endpoint| list(&endpoint["addresses"]));
    let addresses: Vec<String> = addresses.map(|address| text(address).to_owned()).collect();
    vec![
        slice["metadata"]["name"].clone(),
        text(&slice["addressType"]).into(),
        first(&ports).into(),
        first(&addresses).into(),
        age(slice, now),
    ]
}

pub(super) fn service_cidr(range: &Value, now: Timestamp) -> Vec<Value> {
    vec![range["metadata"]["name"].clone(), joined(&range["spec"]["cidrs"], ",").into(), age(range, now)]
}

pub(super) fn ip_address(address: &Value, now: Timestamp) -> Vec<Value> {
    let parent = &address["spec"]["parentRef"];
    let mut shown = text(&parent["resource"]).to_owned();
    for (separator, field) in [(".", "group"), ("/", "namespace"), ("/", "name")] {
        let part = text(&parent[field]);
        if !part.is_empty() {
            shown = format!("{shown}{separator}{part}");
        }
    }
    vec![address["metadata"]["name"].clone(), shown.into(), age(address, now)]
}
