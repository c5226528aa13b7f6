package main

import pintle "pintle.dev/sdk"

var (
	errandKind       = pintle.MustKind("example.com/v1/Errand")
	deploymentKind   = pintle.MustKind("apps/v1/Deployment")
	podKind          = pintle.MustKind("v1/Pod")
	secretKind       = pintle.MustKind("v1/Secret")
	tickKind         = pintle.MustKind("pintle/v1/Tick")
	accessReviewKind = pintle.MustKind("authorization.k8s.io/v1/SubjectAccessReview")
)

// Queues of the manifest.
const (
	errandsQueue = "errands"
	roundsQueue  = "rounds"
)

// Errand is something to do once.
type Errand struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		Do    string `json:"do"`
		Of    string `json:"of"`
		Until string `json:"until"`
	} `json:"spec"`
	Status struct {
		// Answer is nil if there is none; an empty one is one.
		Answer *string `json:"answer"`
	} `json:"status"`
}

// Pod is what is known of one.
type Pod struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// Config is what the operator has set.
type Config struct {
	Greeting string `json:"greeting"`
}

// Scale is that of a Deployment.
type Scale struct {
	Spec struct {
		Replicas int64 `json:"replicas"`
	} `json:"spec"`
}

// AccessReview is a SubjectAccessReview.
type AccessReview struct {
	Spec   AccessReviewSpec   `json:"spec"`
	Status AccessReviewStatus `json:"status,omitzero"`
}

// AccessReviewSpec asks whether a user may do something.
type AccessReviewSpec struct {
	User               string             `json:"user"`
	ResourceAttributes ResourceAttributes `json:"resourceAttributes"`
}

// ResourceAttributes say what.
type ResourceAttributes struct {
	Namespace string `json:"namespace"`
	Verb      string `json:"verb"`
	Resource  string `json:"resource"`
}

// AccessReviewStatus is the verdict.
type AccessReviewStatus struct {
	Allowed bool `json:"allowed"`
}
