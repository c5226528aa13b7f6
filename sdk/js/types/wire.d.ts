import { Retry, Terminal } from "./errors.js";
import type { Event, Mutation } from "./mutation.js";
import type { Wake } from "./outcome.js";
import type { LiveDetail, Need } from "./need.js";
/** Reads that the host takes from one outcome; the rest is asked for by the next round, which still misses it. */
export declare const MAX_NEEDS = 256;
/** Keys that one outcome wakes. */
export declare const MAX_WAKES = 10000;
/**
 * @param {unknown} result What `reconcile` returned.
 */
export declare function wireOutcome(result: unknown): {
    needs: ({
        tag: "live-object";
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
        };
    } | {
        tag: "live-list";
        val: {
            kind: {
                group: string;
                version: string;
                name: string;
            };
            namespace: string;
            labelSelector: string | null;
            fieldSelector: string | null;
            detail: LiveDetail;
            limit: number;
        };
    } | {
        tag: "raw-path";
        val: string;
    } | {
        tag: "discovery";
        val?: never;
    } | {
        tag: "review";
        val: {
            kind: {
                group: string;
                version: string;
                name: string;
            };
            namespace: string;
            object: string;
        };
    } | {
        tag: "sign-jwt";
        val: {
            key: string;
            claims: string;
        };
    } | {
        tag: "sign-certificate";
        val: {
            authority: string;
            request: string;
            usages: string[];
            notBefore: string;
            notAfter: string;
        };
    } | {
        tag: "call";
        val: {
            endpoint: string;
            operation: string;
            body: string;
            timeoutMs: number | null;
        };
    })[];
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
        at: WireMoment;
    }[];
    wake: {
        key: {
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
        afterMs: number | null;
    }[];
    runLabels: [string, string][];
    error: {
        tag: "retry";
        val: {
            message: string;
            afterMs: number | null;
        };
    } | {
        tag: "terminal";
        val: string;
    } | null;
};
export type WireOutcome = ReturnType<typeof wireOutcome>;
export type WireError = ReturnType<typeof wireError>;
export type WireMutation = ReturnType<typeof wireMutation>;
export type WireEvent = ReturnType<typeof wireEvent>;
export type WireNeed = ReturnType<typeof wireNeed>;
export type WireWake = ReturnType<typeof wireWake>;
export type WirePlace = {
    step: number;
    position: number;
};
export type WireMoment = {
    tag: "now";
} | {
    tag: "done" | "failed";
    val: WirePlace;
};
/**
 * @param {readonly Need[]} needs
 * @returns {WireOutcome}
 */
export declare function wireNeeds(needs: readonly Need[]): WireOutcome;
/**
 * An error that is thrown, or that an outcome has.
 * @param {Retry | Terminal} error
 * @param {string} place
 * @returns {{tag: "retry", val: {message: string, afterMs: number | null}} | {tag: "terminal", val: string}}
 */
export declare function wireError(error: Retry | Terminal, place: string): {
    tag: "retry";
    val: {
        message: string;
        afterMs: number | null;
    };
} | {
    tag: "terminal";
    val: string;
};
/**
 * Whole milliseconds, rounded up, so that what was waited for has happened then; within the contract's range.
 * @param {unknown} value
 * @param {string} place
 */
export declare function milliseconds(value: unknown, place: string): number;
/**
 * @param {Wake} wake
 * @param {string} place
 */
export declare function wireWake(wake: Wake, place: string): {
    key: {
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
    afterMs: number | null;
};
/**
 * A need in the contract's shape: equal ones have equal texts.
 * @param {Need} need
 * @param {string} place
 */
export declare function wireNeed(need: Need, place: string): {
    tag: "live-object";
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
    };
} | {
    tag: "live-list";
    val: {
        kind: {
            group: string;
            version: string;
            name: string;
        };
        namespace: string;
        labelSelector: string | null;
        fieldSelector: string | null;
        detail: LiveDetail;
        limit: number;
    };
} | {
    tag: "raw-path";
    val: string;
} | {
    tag: "discovery";
    val?: never;
} | {
    tag: "review";
    val: {
        kind: {
            group: string;
            version: string;
            name: string;
        };
        namespace: string;
        object: string;
    };
} | {
    tag: "sign-jwt";
    val: {
        key: string;
        claims: string;
    };
} | {
    tag: "sign-certificate";
    val: {
        authority: string;
        request: string;
        usages: string[];
        notBefore: string;
        notAfter: string;
    };
} | {
    tag: "call";
    val: {
        endpoint: string;
        operation: string;
        body: string;
        timeoutMs: number | null;
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
