//! Usage of Services: their number, load balancers and node ports.
//!
//! *Source*: `pkg/quota/v1/evaluator/core/services.go`.

use crate::evaluator::Evaluator;
use crate::resource_list::{ONE, ResourceList, number};
use crate::types::Service;

const COUNT: &str = "count/services";
const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

/// Usage of Services.
pub struct Services;

impl Evaluator for Services {
    type Object = Service;

    fn measures(&self, resource: &str) -> bool {
        [COUNT, SERVICES, LOAD_BALANCERS, NODE_PORTS].contains(&resource)
    }

    fn usage(&self, service: &Service) -> ResourceList {
        let spec = &service.spec;
        let is_balanced = spec.type_ == "LoadBalancer";
        // By the requested ports, which have no numbers yet.
        let n_ports = match spec.type_.as_str() {
            "LoadBalancer" if spec.allocate_load_balancer_node_ports == Some(false) => {
                spec.ports.iter().filter(|port| port.node_port != 0).count()
            }
            "LoadBalancer" | "NodePort" => spec.ports.len(),
            _ => 0,
        };
        [(COUNT, ONE), (SERVICES, ONE), (LOAD_BALANCERS, number(is_balanced.into())), (NODE_PORTS, number(n_ports))]
            .map(|(name, amount)| (name.to_owned(), amount))
            .into()
    }

    fn handles_update(&self, subresource: &str, _: &Service, _: &Service) -> bool {
        subresource.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource_list::text;

    /// As `TestServiceEvaluatorUsage` and `TestServiceEvaluatorMatchesResources` of services_test.go.
    #[test]
    fn usage_is_that_of_upstream() {
        let (port, numbered) = (json!({"port": 27443}), json!({"port": 27444, "nodePort": 32001}));
        for (spec, balancers, ports) in [
            (json!({"type": "LoadBalancer"}), 1, 0),
            (json!({"type": "LoadBalancer", "ports": [port]}), 1, 1),
            (json!({"type": "LoadBalancer", "ports": [port, port]}), 1, 2),
            (json!({"type": "LoadBalancer", "ports": [port, port], "allocateLoadBalancerNodePorts": true}), 1, 2),
            (json!({"type": "LoadBalancer", "ports": [port, port], "allocateLoadBalancerNodePorts": false}), 1, 0),
            (json!({"type": "LoadBalancer", "ports": [port, numbered], "allocateLoadBalancerNodePorts": false}), 1, 1),
            (json!({"type": "ClusterIP"}), 0, 0),
            (json!({"type": "NodePort", "ports": [port]}), 0, 1),
            (json!({"type": "NodePort", "ports": [port, port]}), 0, 2),
        ] {
            let service: Service = serde_json::from_value(json!({ "spec": spec })).unwrap();
            let expected =
                format!("count/services=1,services=1,services.loadbalancers={balancers},services.nodeports={ports}");
            assert_eq!(text(Services.usage(&service).iter()), expected, "{spec}");
        }
        assert!(!Services.measures("pods"));
    }
}
