// The objects that a WebApp owns.

import { Children, hash } from "pintle";

import type { Settings, Wanted, WebApp } from "./types.ts";

/** Field manager of the applies. */
const MANAGER = "webapp-controller";
/** Annotation of the Pod template: hash of the configuration, so that another configuration is another template. */
const CONFIG_HASH = "example.com/config-hash";

/** The children that a valid WebApp wants. */
export function children(app: WebApp, wanted: Wanted, settings: Settings, isHostHeld: boolean): Children {
  const { name } = app.metadata;
  const labels = { "app.kubernetes.io/name": "webapp", "app.kubernetes.io/instance": name };
  const all = new Children(app, MANAGER)
    .own(
      "v1/ConfigMap",
      "apps/v1/Deployment",
      "v1/Service",
      "networking.k8s.io/v1/Ingress",
      "autoscaling/v2/HorizontalPodAutoscaler",
      "policy/v1/PodDisruptionBudget",
    )
    .want(configMap(name, labels, wanted), deployment(name, labels, wanted), service(name, labels));
  if (isHostHeld) {
    all.want(ingress(name, labels, wanted, settings));
  }
  if (wanted.autoscaling) {
    all.want(autoscaler(name, labels, wanted.autoscaling));
  }
  if (wanted.disruptionBudget) {
    all.want(disruptionBudget(name, labels, wanted.disruptionBudget));
  }
  return all;
}

type Labels = Record<string, string>;

function configMap(name: string, labels: Labels, { config }: Wanted) {
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${name}-config`, labels }, data: config };
}

function deployment(name: string, labels: Labels, { image, port, replicas, config, autoscaling }: Wanted) {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name, labels },
    spec: {
      // With an autoscaler, the number is the autoscaler's.
      ...(autoscaling ? {} : { replicas }),
      selector: { matchLabels: labels },
      template: {
        metadata: { labels, annotations: { [CONFIG_HASH]: hash(config) } },
        spec: {
          containers: [
            {
              name: "web",
              image,
              ports: [{ name: "http", containerPort: port }],
              envFrom: [{ configMapRef: { name: `${name}-config` } }],
            },
          ],
        },
      },
    },
  };
}

function service(name: string, labels: Labels) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, labels },
    spec: { selector: labels, ports: [{ name: "http", port: 80, targetPort: "http" }] },
  };
}

function ingress(name: string, labels: Labels, { host }: Wanted, { ingressClass }: Settings) {
  const backend = { service: { name, port: { name: "http" } } };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "Ingress",
    metadata: { name, labels },
    spec: {
      ...(ingressClass === "" ? {} : { ingressClassName: ingressClass }),
      rules: [{ host, http: { paths: [{ path: "/", pathType: "Prefix", backend }] } }],
    },
  };
}

function autoscaler(name: string, labels: Labels, { minReplicas, maxReplicas, cpuPercent }: NonNullable<Wanted["autoscaling"]>) {
  const target = { type: "Utilization", averageUtilization: cpuPercent };
  return {
    apiVersion: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    metadata: { name, labels },
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name },
      minReplicas,
      maxReplicas,
      metrics: [{ type: "Resource", resource: { name: "cpu", target } }],
    },
  };
}

function disruptionBudget(name: string, labels: Labels, budget: NonNullable<Wanted["disruptionBudget"]>) {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name, labels },
    spec: { selector: { matchLabels: labels }, ...budget },
  };
}
