/* The objects that a WebApp owns. */
#include "webapp.h"

/* Field manager of the applies. */
#define MANAGER "webapp-controller"
/* Annotation of the Pod template: hash of the configuration, so that another configuration is another template. */
#define CONFIG_HASH "example.com/config-hash"

static const pintle_kind CONFIG_MAP = {"", "v1", "ConfigMap"};
static const pintle_kind SERVICE = {"", "v1", "Service"};
static const pintle_kind INGRESS = {"networking.k8s.io", "v1", "Ingress"};
static const pintle_kind AUTOSCALER = {"autoscaling", "v2", "HorizontalPodAutoscaler"};
static const pintle_kind DISRUPTION_BUDGET = {"policy", "v1", "PodDisruptionBudget"};

static const char *name_of(const pintle_json *app) { return pintle_metadata(app, "name"); }

static pintle_json *labels(const pintle_json *app) {
    return pintle_format("{'app.kubernetes.io/name': 'webapp', 'app.kubernetes.io/instance': %s}", name_of(app));
}

static pintle_json *config_of(const pintle_json *app) {
    pintle_json *config = spec_of(app, "config");
    return config == NULL ? pintle_format("{}") : config;
}

static const char *config_map_name(const pintle_json *app) { return pintle_printf("%s-config", name_of(app)); }

/* An object with the labels of the WebApp. */
static pintle_json *object(const pintle_json *app, pintle_kind kind, const char *name, const char *content, pintle_json *value) {
    return pintle_format(
        "{'apiVersion': %s, 'kind': %s, 'metadata': {'name': %s, 'labels': %j}, %s: %j}", pintle_api_version(kind), kind.name, name,
        labels(app), content, value);
}

static pintle_json *deployment(const pintle_json *app) {
    pintle_json *container = pintle_format(
        "{'name': 'web', 'image': %s, 'ports': [{'name': 'http', 'containerPort': %i}], 'envFrom': [{'configMapRef': {'name': %s}}]}",
        pintle_text(spec_of(app, "image"), ""), pintle_int(spec_of(app, "port"), 8080), config_map_name(app));
    pintle_json *spec = pintle_format(
        "{'selector': {'matchLabels': %j},"
        " 'template': {'metadata': {'labels': %j, 'annotations': {'" CONFIG_HASH "': %s}}, 'spec': {'containers': [%j]}}}",
        labels(app), labels(app), pintle_hash(config_of(app)), container);
    /* With an autoscaler, the number is the autoscaler's. */
    if (spec_of(app, "autoscaling") == NULL) {
        pintle_set(spec, "replicas", pintle_format("%i", pintle_int(spec_of(app, "replicas"), 1)));
    }
    return object(app, DEPLOYMENT, name_of(app), "spec", spec);
}

static pintle_json *service(const pintle_json *app) {
    pintle_json *spec = pintle_format("{'selector': %j, 'ports': [{'name': 'http', 'port': 80, 'targetPort': 'http'}]}", labels(app));
    return object(app, SERVICE, name_of(app), "spec", spec);
}

static pintle_json *ingress(const pintle_json *app, const pintle_json *settings) {
    pintle_json *spec = pintle_format(
        "{'rules': [{'host': %s, 'http': {'paths': [{'path': '/', 'pathType': 'Prefix',"
        " 'backend': {'service': {'name': %s, 'port': {'name': 'http'}}}}]}}]}",
        host_of(app), name_of(app));
    const char *class = pintle_text(pintle_at(settings, "ingressClass"), "");
    if (class[0] != 0) {
        pintle_set(spec, "ingressClassName", text_json(class));
    }
    return object(app, INGRESS, name_of(app), "spec", spec);
}

static pintle_json *autoscaler(const pintle_json *app, const pintle_json *wanted) {
    pintle_json *spec = pintle_format(
        "{'scaleTargetRef': {'apiVersion': 'apps/v1', 'kind': 'Deployment', 'name': %s}, 'minReplicas': %i, 'maxReplicas': %i,"
        " 'metrics': [{'type': 'Resource', 'resource': {'name': 'cpu', 'target': {'type': 'Utilization', 'averageUtilization': %i}}}]}",
        name_of(app), pintle_int(pintle_at(wanted, "minReplicas"), 1), pintle_int(pintle_at(wanted, "maxReplicas"), 0),
        pintle_int(pintle_at(wanted, "cpuPercent"), 80));
    return object(app, AUTOSCALER, name_of(app), "spec", spec);
}

static pintle_json *disruption_budget(const pintle_json *app, const pintle_json *wanted) {
    pintle_json *spec = pintle_format("{'selector': {'matchLabels': %j}}", labels(app));
    static const char *const fields[] = {"minAvailable", "maxUnavailable"};
    for (int i = 0; i < 2; i++) {
        if (pintle_at(wanted, fields[i]) != NULL) {
            pintle_set(spec, fields[i], pintle_at(wanted, fields[i]));
        }
    }
    return object(app, DISRUPTION_BUDGET, name_of(app), "spec", spec);
}

pintle_children *wanted_children(const pintle_json *app, const pintle_json *settings, bool is_host_held) {
    pintle_children *children = pintle_children_of(app, MANAGER);
    pintle_own(children, CONFIG_MAP);
    pintle_own(children, DEPLOYMENT);
    pintle_own(children, SERVICE);
    pintle_own(children, INGRESS);
    pintle_own(children, AUTOSCALER);
    pintle_own(children, DISRUPTION_BUDGET);
    pintle_want(children, object(app, CONFIG_MAP, config_map_name(app), "data", config_of(app)));
    pintle_want(children, deployment(app));
    pintle_want(children, service(app));
    if (is_host_held) {
        pintle_want(children, ingress(app, settings));
    }
    const pintle_json *autoscaling = spec_of(app, "autoscaling");
    if (autoscaling != NULL) {
        pintle_want(children, autoscaler(app, autoscaling));
    }
    const pintle_json *budget = spec_of(app, "disruptionBudget");
    if (budget != NULL) {
        pintle_want(children, disruption_budget(app, budget));
    }
    return children;
}
