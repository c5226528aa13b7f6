"""The objects that a WebApp owns."""

from __future__ import annotations

from typing import Any

from pintle import Children, Object, hash_json

from .types import Autoscaling, DisruptionBudget, WebApp

#: Field manager of the applies.
MANAGER = "webapp-controller"
#: Annotation of the Pod template: hash of the configuration, so that another configuration is another template.
CONFIG_HASH = "example.com/config-hash"


def children(app: WebApp, settings: dict[str, Any], is_host_held: bool) -> Children:
    """The children that a valid WebApp wants."""
    wanted = Children(app.object, MANAGER).own(
        "v1/ConfigMap",
        "apps/v1/Deployment",
        "v1/Service",
        "networking.k8s.io/v1/Ingress",
        "autoscaling/v2/HorizontalPodAutoscaler",
        "policy/v1/PodDisruptionBudget",
    )
    wanted.want(_config_map(app), _deployment(app), _service(app))
    if is_host_held:
        wanted.want(_ingress(app, settings["ingressClass"]))
    if app.autoscaling:
        wanted.want(_autoscaler(app, app.autoscaling))
    if app.disruption_budget:
        wanted.want(_disruption_budget(app, app.disruption_budget))
    return wanted


def _labels(app: WebApp) -> dict[str, str]:
    return {"app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": app.name}


def _object(app: WebApp, api_version: str, kind: str, name: str | None = None, **content: Any) -> Object:
    metadata = {"name": name or app.name, "labels": _labels(app)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _config_map(app: WebApp) -> Object:
    return _object(app, "v1", "ConfigMap", f"{app.name}-config", data=app.config)


def _deployment(app: WebApp) -> Object:
    container = {
        "name": "web",
        "image": app.image,
        "ports": [{"name": "http", "containerPort": app.port}],
        "envFrom": [{"configMapRef": {"name": f"{app.name}-config"}}],
    }
    template = {
        "metadata": {"labels": _labels(app), "annotations": {CONFIG_HASH: hash_json(app.config)}},
        "spec": {"containers": [container]},
    }
    # With an autoscaler, the number is the autoscaler's.
    replicas = {} if app.autoscaling else {"replicas": app.replicas}
    spec = {**replicas, "selector": {"matchLabels": _labels(app)}, "template": template}
    return _object(app, "apps/v1", "Deployment", spec=spec)


def _service(app: WebApp) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    return _object(app, "v1", "Service", spec={"selector": _labels(app), "ports": ports})


def _ingress(app: WebApp, ingress_class: str) -> Object:
    backend = {"service": {"name": app.name, "port": {"name": "http"}}}
    rule = {"host": app.host, "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    class_name = {"ingressClassName": ingress_class} if ingress_class else {}
    return _object(app, "networking.k8s.io/v1", "Ingress", spec={**class_name, "rules": [rule]})


def _autoscaler(app: WebApp, autoscaling: Autoscaling) -> Object:
    target = {"type": "Utilization", "averageUtilization": autoscaling.cpu_percent}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app.name},
        "minReplicas": autoscaling.min_replicas,
        "maxReplicas": autoscaling.max_replicas,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    return _object(app, "autoscaling/v2", "HorizontalPodAutoscaler", spec=spec)


def _disruption_budget(app: WebApp, budget: DisruptionBudget) -> Object:
    numbers = {"minAvailable": budget.min_available, "maxUnavailable": budget.max_unavailable}
    wanted = {name: number for name, number in numbers.items() if number is not None}
    return _object(app, "policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": _labels(app)}, **wanted})
