// The custom resources.

import type { Condition, ObjectMeta } from "pintle";

export const WEB_APP = "example.com/v1/WebApp";
export const EXTERNAL_NAME = "example.com/v1/ExternalName";

/** Keeps a deleted WebApp until its claims are gone. */
export const FINALIZER = "example.com/external-name";

/** What the cache always has of an object's metadata. */
export type Metadata = ObjectMeta & { name: string; uid: string; resourceVersion: string };

/** A field that may be absent; `null` is the same. */
type Maybe<T> = T | null | undefined;

/** A web application. */
export interface WebApp {
  apiVersion: string;
  kind: string;
  metadata: Metadata & { namespace: string };
  spec?: Maybe<Spec>;
  status?: Status;
}

/** What is wanted. */
export interface Spec {
  image?: Maybe<string>;
  replicas?: Maybe<number>;
  port?: Maybe<number>;
  host?: Maybe<string>;
  config?: Maybe<Record<string, string>>;
  autoscaling?: Maybe<Autoscaling>;
  disruptionBudget?: Maybe<DisruptionBudget>;
}

/** Bounds of the replicas. */
export interface Autoscaling {
  minReplicas?: Maybe<number>;
  maxReplicas?: Maybe<number>;
  cpuPercent?: Maybe<number>;
}

/** How many Pods may be missing: one of the two. */
export interface DisruptionBudget {
  minAvailable?: Maybe<number>;
  maxUnavailable?: Maybe<number>;
}

/** What is. */
export interface Status {
  observedGeneration?: number;
  replicas?: number;
  availableReplicas?: number;
  url?: string | undefined;
  conditions?: Condition[];
}

/** A claim of a name outside of the cluster. It has the name that it claims, so nobody else can claim it. */
export interface ExternalName {
  apiVersion: string;
  kind: string;
  metadata: Metadata;
  spec: {
    /** Namespace and name of the WebApp. */
    webapp: string;
    /** Uid of the WebApp. */
    uid: string;
  };
}

/** What is looked at of a Deployment. */
export interface Deployment {
  metadata: Metadata & { generation?: number };
  spec: { replicas?: number };
  status?: {
    observedGeneration?: number;
    replicas?: number;
    updatedReplicas?: number;
    availableReplicas?: number;
    conditions?: Condition[];
  };
}

/** The controller's configuration, as manifest.yaml declares it. */
export interface Settings {
  ingressClass: string;
  retrySeconds: number;
}

/** A spec with what it does not say. */
export interface Wanted {
  image: string;
  replicas: number;
  port: number;
  /** Empty if none is wanted. */
  host: string;
  config: Record<string, string>;
  autoscaling?: { minReplicas: number; maxReplicas: number; cpuPercent: number };
  disruptionBudget?: { minAvailable?: number; maxUnavailable?: number };
}

/** Fills in the defaults; a `maxReplicas` that is missing becomes 0, which is not valid. */
export function wantedBy({ spec }: WebApp): Wanted {
  const { autoscaling, disruptionBudget: budget } = spec ?? {};
  return {
    image: spec?.image ?? "",
    replicas: spec?.replicas ?? 1,
    port: spec?.port ?? 8080,
    host: spec?.host ?? "",
    config: spec?.config ?? {},
    ...(autoscaling == null
      ? {}
      : {
          autoscaling: {
            minReplicas: autoscaling.minReplicas ?? 1,
            maxReplicas: autoscaling.maxReplicas ?? 0,
            cpuPercent: autoscaling.cpuPercent ?? 80,
          },
        }),
    ...(budget == null
      ? {}
      : {
          disruptionBudget: {
            ...(budget.minAvailable == null ? {} : { minAvailable: budget.minAvailable }),
            ...(budget.maxUnavailable == null ? {} : { maxUnavailable: budget.maxUnavailable }),
          },
        }),
  };
}
