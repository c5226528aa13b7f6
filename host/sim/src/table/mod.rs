//! Server-side printing: the `Table` documents for `kubectl get`.
//!
//! Flow: objects of one kind in, a `meta.k8s.io/v1` Table out; the server adds the list's metadata.
//!
//! Invariant: every row has as many cells as the table has columns.
//!
//! Not here: columns of built-in kinds outside of the demo; those have name and age.
//!
//! Source: `pkg/printers/internalversion/printers.go`, apiextensions' table convertor. Columns have no descriptions.

mod cells;
mod cells_batch;
mod cells_network;
mod cells_workloads;
mod columns;
mod custom;
mod format;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The part of each object in a table row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Cells alone.
    None,
    /// The object's metadata, the default.
    #[default]
    Metadata,
    /// The whole object.
    Object,
}

impl IncludeObject {
    /// Reads the query parameter `includeObject`.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("" | "Metadata") => Some(Self::Metadata),
            Some("None") => Some(Self::None),
            Some("Object") => Some(Self::Object),
            Some(_) => None,
        }
    }
}

/// The table of `objects`, which are all of one kind. `crd_columns` are the `additionalPrinterColumns` of a custom
/// kind's version (an absent list results in the age only).
pub fn table(
    group: &str,
    kind: &str,
    objects: &[&Value],
    crd_columns: Option<&Value>,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let printer = Printer::new(group, kind, crd_columns);
    let rows: Vec<Value> = objects.iter().map(|object| printer.row(object, include, now)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": printer.definitions(),
        "rows": rows,
    })
}

type Cells = fn(&Value, Timestamp) -> Vec<Value>;

enum Printer {
    Builtin { columns: &'static [&'static str], cells: Cells, is_pod: bool },
    Custom(Vec<custom::Column>),
}

impl Printer {
    fn new(group: &str, kind: &str, crd_columns: Option<&Value>) -> Self {
        if let Some(declared) = crd_columns {
            return Printer::Custom(custom::columns(declared));
        }
        let (columns, cells) = columns::printer(group, kind).unwrap_or((columns::DEFAULT, cells::name_and_age));
        Printer::Builtin { columns, cells, is_pod: group.is_empty() && kind == "Pod" }
    }

    fn definitions(&self) -> Vec<Value> {
        match self {
            Printer::Builtin { columns, .. } => columns.iter().map(|column| columns::definition(column)).collect(),
            Printer::Custom(columns) => {
                let mut definitions = vec![columns::definition("Name")];
                definitions.extend(columns.iter().map(custom::Column::definition));
                definitions
            }
        }
    }

    fn row(&self, object: &Value, include: IncludeObject, now: Timestamp) -> Value {
        let cells = match self {
            Printer::Builtin { cells, .. } => cells(object, now),
            Printer::Custom(columns) => {
                let mut cells = vec![object["metadata"]["name"].clone()];
                cells.extend(columns.iter().map(|column| column.cell(object, now)));
                cells
            }
        };
        let mut row = Map::new();
        row.insert("cells".to_owned(), Value::Array(cells));
        if matches!(self, Printer::Builtin { is_pod: true, .. })
            && let Some(conditions) = cells_workloads::pod_conditions(object)
        {
            row.insert("conditions".to_owned(), conditions);
        }
        match include {
            IncludeObject::None => {
                row.insert("object".to_owned(), Value::Null);
            }
            IncludeObject::Object => {
                row.insert("object".to_owned(), object.clone());
            }
            IncludeObject::Metadata => {
                row.insert(
                    "object".to_owned(),
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}),
                );
            }
        }
        Value::Object(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2026-01-01T01:00:00Z";

    fn cells(group: &str, kind: &str, object: Value) -> Vec<Value> {
        let table = table(group, kind, &[&object], None, IncludeObject::Metadata, NOW.parse().unwrap());
        let row = table["rows"][0]["cells"].as_array().unwrap().clone();
        assert_eq!(row.len(), table["columnDefinitions"].as_array().unwrap().len(), "{kind}");
        row
    }

    fn meta(name: &str) -> Value {
        json!({"name": name, "creationTimestamp": "2026-01-01T00:57:00Z"})
    }

    #[test]
    fn a_running_pod_shows_ready_containers_and_restarts() {
        let pod = json!({"metadata": meta("p"), "spec": {"nodeName": "n", "containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "containerStatuses": [
                {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": "2026-01-01T00:59:00Z"}}},
                {"name": "b", "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}});
        assert_eq!(
            cells("", "Pod", pod),
            [
                json!("p"),
                json!("1/2"),
                json!("CrashLoopBackOff"),
                json!("2 (60s ago)"),
                json!("3m"),
                json!("10.0.0.1"),
                json!("n"),
                json!("<none>"),
                json!("<none>")
            ]
        );
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_terminating_and_a_finished_one_is_marked_completed() {
        let mut pod =
            json!({"metadata": meta("p"), "spec": {"containers": [{"name": "a"}]}, "status": {"phase": "Succeeded"}});
        let now = NOW.parse().unwrap();
        let done = table("", "Pod", &[&pod], None, IncludeObject::None, now);
        assert_eq!(done["rows"][0]["conditions"][0]["reason"], "Succeeded");
        assert!(done["rows"][0]["object"].is_null());
        pod["status"]["phase"] = json!("Running");
        pod["metadata"]["deletionTimestamp"] = json!(NOW);
        assert_eq!(cells("", "Pod", pod)[2], "Terminating");
    }

    #[test]
    fn a_slice_shows_three_of_its_addresses() {
        let endpoints: Vec<Value> = (1..=5).map(|n| json!({"addresses": [format!("10.0.0.{n}")]})).collect();
        let slice =
            json!({"metadata": meta("s"), "addressType": "IPv4", "ports": [{"port": 80}, {}], "endpoints": endpoints});
        let expected = ["s", "IPv4", "80,*", "10.0.0.1,10.0.0.2,10.0.0.3 + 2 more...", "3m"];
        assert_eq!(cells("discovery.k8s.io", "EndpointSlice", slice), expected);
    }

    #[test]
    fn every_kind_with_columns_prints_an_empty_object() {
        for (group, kind) in columns::kinds() {
            let row = cells(group, kind, json!({"metadata": {"name": "x"}}));
            if kind != "Event" {
                assert_eq!(row[0], "x", "{kind}");
            }
        }
        assert_eq!(cells("rbac.authorization.k8s.io", "Role", json!({"metadata": meta("r")})), ["r", "3m"]);
    }

    #[test]
    fn custom_kinds_print_the_columns_of_their_definition() {
        let columns = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Note", "type": "string", "jsonPath": ".metadata.annotations.example\\.com/note", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
        let mut object = json!({"metadata": meta("w"), "spec": {"size": 3}, "status": {"conditions": [{"type": "A", "status": "x"}, {"type": "Ready", "status": "True"}]}});
        object["metadata"]["annotations"] = json!({"example.com/note": "hi"});
        let now = NOW.parse().unwrap();
        let printed = table("example.com", "Widget", &[&object], Some(&columns), IncludeObject::Object, now);
        assert_eq!(printed["rows"][0]["cells"], json!(["w", 3, "True", "hi", "3m"]));
        assert_eq!(printed["columnDefinitions"][3]["priority"], 1);
        let bare = table("example.com", "Widget", &[&object], Some(&Value::Null), IncludeObject::None, now);
        assert_eq!(bare["rows"][0]["cells"], json!(["w", "3m"]));
    }
}
