import type { Event, Mutation } from "./mutation.js";
import type { Need } from "./need.js";
import type { Key } from "./model.js";
/** Reads that the host takes from one outcome; the rest is asked for by the next round, which still misses it. */
export declare const MAX_NEEDS = 256;
/**
 * @param {unknown} result What `reconcile` returned.
 */
export declare function wireOutcome(result: unknown): {
    needs: Need[];
    steps: {
        order: string;
        mutations: {
            action: {
                tag: "create";
                val: {
                    kind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    namespace: string;
                    object: string;
                    subresource: string | null;
                    patchType?: never;
                    body?: never;
                    preconditions?: never;
                    gracePeriodSeconds?: never;
                    labelSelector?: never;
                    propagation?: never;
                };
            } | {
                tag: "update";
                val: {
                    kind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    object: string;
                    subresource: string | null;
                    patchType?: never;
                    body?: never;
                    preconditions?: never;
                    gracePeriodSeconds?: never;
                    namespace?: never;
                    labelSelector?: never;
                    propagation?: never;
                };
            } | {
                tag: "patch";
                val: {
                    kind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    object: {
                        namespace: string;
                        name: string;
                    };
                    subresource: string | null;
                    patchType: {
                        tag: string;
                        val: {
                            fieldManager: string;
                            force: boolean;
                        };
                    } | {
                        val?: never;
                        tag: string;
                    };
                    body: string;
                    preconditions: {
                        uid: string | null;
                        resourceVersion: string | null;
                    };
                    gracePeriodSeconds?: never;
                    namespace?: never;
                    labelSelector?: never;
                    propagation?: never;
                };
            } | {
                tag: "delete";
                val: {
                    subresource?: never;
                    patchType?: never;
                    body?: never;
                    kind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    object: {
                        namespace: string;
                        name: string;
                    };
                    preconditions: {
                        uid: string | null;
                        resourceVersion: string | null;
                    };
                    propagation: string | null;
                    gracePeriodSeconds: number | null;
                    namespace?: never;
                    labelSelector?: never;
                };
            } | {
                tag: "delete-collection";
                val: {
                    subresource?: never;
                    patchType?: never;
                    body?: never;
                    object?: never;
                    preconditions?: never;
                    gracePeriodSeconds?: never;
                    kind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    namespace: string;
                    labelSelector: string | null;
                    propagation: string | null;
                };
            } | {
                tag: "event";
                val: {
                    regardingKind: {
                        group: string;
                        version: string;
                        name: string;
                    };
                    regarding: {
                        namespace: string;
                        name: string;
                    };
                    regardingUid: string;
                    eventType: string;
                    reason: string;
                    message: string;
                };
            };
            onSuccess: {
                regardingKind: {
                    group: string;
                    version: string;
                    name: string;
                };
                regarding: {
                    namespace: string;
                    name: string;
                };
                regardingUid: string;
                eventType: string;
                reason: string;
                message: string;
            } | null;
            onFailure: {
                regardingKind: {
                    group: string;
                    version: string;
                    name: string;
                };
                regarding: {
                    namespace: string;
                    name: string;
                };
                regardingUid: string;
                eventType: string;
                reason: string;
                message: string;
            } | null;
            tolerate: string[];
        }[];
        always: boolean;
    }[];
    requeueAfterMs: number | null;
    state: {
        name: string;
        value: string | null;
    }[];
    observations: {
        metric: string;
        labels: string[];
        value: number;
    }[];
};
export type WireOutcome = ReturnType<typeof wireOutcome>;
export type WireMutation = ReturnType<typeof wireMutation>;
export type WireEvent = ReturnType<typeof wireEvent>;
/** @typedef {ReturnType<typeof wireOutcome>} WireOutcome */
/** @typedef {ReturnType<typeof wireMutation>} WireMutation */
/** @typedef {ReturnType<typeof wireEvent>} WireEvent */
/**
 * @param {readonly Need[]} needs
 * @returns {WireOutcome}
 */
export declare function wireNeeds(needs: readonly Need[]): WireOutcome;
/**
 * Whole milliseconds, rounded up, so that what was waited for has happened then; within the contract's range.
 * @param {unknown} value
 * @param {string} place
 */
export declare function milliseconds(value: unknown, place: string): number;
/**
 * @param {Key} key
 * @param {number} i
 */
export declare function wireKey(key: Key, i: number): {
    queue: string;
    kind: {
        group: string;
        version: string;
        name: string;
    };
    object: {
        namespace: string;
        name: string;
    };
};
/**
 * @param {Mutation} mutation
 * @param {string} place
 */
declare function wireMutation(mutation: Mutation, place: string): {
    action: {
        tag: "create";
        val: {
            kind: {
                group: string;
                version: string;
                name: string;
            };
            namespace: string;
            object: string;
            subresource: string | null;
            patchType?: never;
            body?: never;
            preconditions?: never;
            gracePeriodSeconds?: never;
            labelSelector?: never;
            propagation?: never;
        };
    } | {
        tag: "update";
        val: {
            kind: {
                group: string;
                version: string;
                name: string;
            };
            object: string;
            subresource: string | null;
            patchType?: never;
            body?: never;
            preconditions?: never;
            gracePeriodSeconds?: never;
            namespace?: never;
            labelSelector?: never;
            propagation?: never;
        };
    } | {
        tag: "patch";
        val: {
            kind: {
                group: string;
                version: string;
                name: string;
            };
            object: {
                namespace: string;
                name: string;
            };
            subresource: string | null;
            patchType: {
                tag: string;
                val: {
                    fieldManager: string;
                    force: boolean;
                };
            } | {
                val?: never;
                tag: string;
            };
            body: string;
            preconditions: {
                uid: string | null;
                resourceVersion: string | null;
            };
            gracePeriodSeconds?: never;
            namespace?: never;
            labelSelector?: never;
            propagation?: never;
        };
    } | {
        tag: "delete";
        val: {
            subresource?: never;
            patchType?: never;
            body?: never;
            kind: {
                group: string;
                version: string;
                name: string;
            };
            object: {
                namespace: string;
                name: string;
            };
            preconditions: {
                uid: string | null;
                resourceVersion: string | null;
            };
            propagation: string | null;
            gracePeriodSeconds: number | null;
            namespace?: never;
            labelSelector?: never;
        };
    } | {
        tag: "delete-collection";
        val: {
            subresource?: never;
            patchType?: never;
            body?: never;
            object?: never;
            preconditions?: never;
            gracePeriodSeconds?: never;
            kind: {
                group: string;
                version: string;
                name: string;
            };
            namespace: string;
            labelSelector: string | null;
            propagation: string | null;
        };
    } | {
        tag: "event";
        val: {
            regardingKind: {
                group: string;
                version: string;
                name: string;
            };
            regarding: {
                namespace: string;
                name: string;
            };
            regardingUid: string;
            eventType: string;
            reason: string;
            message: string;
        };
    };
    onSuccess: {
        regardingKind: {
            group: string;
            version: string;
            name: string;
        };
        regarding: {
            namespace: string;
            name: string;
        };
        regardingUid: string;
        eventType: string;
        reason: string;
        message: string;
    } | null;
    onFailure: {
        regardingKind: {
            group: string;
            version: string;
            name: string;
        };
        regarding: {
            namespace: string;
            name: string;
        };
        regardingUid: string;
        eventType: string;
        reason: string;
        message: string;
    } | null;
    tolerate: string[];
};
/**
 * @param {Event} event
 * @param {string} place
 */
declare function wireEvent(event: Event, place: string): {
    regardingKind: {
        group: string;
        version: string;
        name: string;
    };
    regarding: {
        namespace: string;
        name: string;
    };
    regardingUid: string;
    eventType: string;
    reason: string;
    message: string;
};
export {};
