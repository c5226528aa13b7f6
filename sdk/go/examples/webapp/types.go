package main

import (
	"encoding/json"
	"time"

	pintle "pintle.dev/sdk"
)

// finalizer keeps a deleted WebApp until its claims are gone.
const finalizer = "example.com/external-name"

var (
	webAppKind           = pintle.MustKind("example.com/v1/WebApp")
	externalNameKind     = pintle.MustKind("example.com/v1/ExternalName")
	configMapKind        = pintle.MustKind("v1/ConfigMap")
	deploymentKind       = pintle.MustKind("apps/v1/Deployment")
	serviceKind          = pintle.MustKind("v1/Service")
	ingressKind          = pintle.MustKind("networking.k8s.io/v1/Ingress")
	autoscalerKind       = pintle.MustKind("autoscaling/v2/HorizontalPodAutoscaler")
	disruptionBudgetKind = pintle.MustKind("policy/v1/PodDisruptionBudget")
)

// WebApp is a web application.
type WebApp struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     Spec              `json:"spec"`
	// Status is as it was read, to see whether it changes.
	Status json.RawMessage `json:"status,omitempty"`
}

// Spec is the desired state.
type Spec struct {
	Image            string            `json:"image"`
	Replicas         *int64            `json:"replicas"`
	Port             *int64            `json:"port"`
	Host             string            `json:"host"`
	Config           map[string]string `json:"config"`
	Autoscaling      *Autoscaling      `json:"autoscaling"`
	DisruptionBudget *DisruptionBudget `json:"disruptionBudget"`
}

// Autoscaling has the bounds of the replicas.
type Autoscaling struct {
	MinReplicas *int64 `json:"minReplicas"`
	// MaxReplicas is 0 if it is missing.
	MaxReplicas int64  `json:"maxReplicas"`
	CPUPercent  *int64 `json:"cpuPercent"`
}

// DisruptionBudget says how many Pods may be missing: by one of the two.
type DisruptionBudget struct {
	MinAvailable   *int64 `json:"minAvailable"`
	MaxUnavailable *int64 `json:"maxUnavailable"`
}

// Status is what is.
type Status struct {
	ObservedGeneration int64              `json:"observedGeneration"`
	Replicas           int64              `json:"replicas"`
	AvailableReplicas  int64              `json:"availableReplicas"`
	URL                string             `json:"url,omitempty"`
	Conditions         []pintle.Condition `json:"conditions"`
}

// ExternalName is a claim of a name outside of the cluster. It has the name that it claims, so nobody else can claim it.
type ExternalName struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		// WebApp is the namespace and name of the one whose name it is.
		WebApp string `json:"webapp"`
		UID    string `json:"uid"`
	} `json:"spec"`
}

// Deployment has what is read of one.
type Deployment struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		Replicas *int64 `json:"replicas"`
	} `json:"spec"`
	Status struct {
		ObservedGeneration int64              `json:"observedGeneration"`
		Replicas           int64              `json:"replicas"`
		UpdatedReplicas    int64              `json:"updatedReplicas"`
		AvailableReplicas  int64              `json:"availableReplicas"`
		Conditions         []pintle.Condition `json:"conditions"`
	} `json:"status"`
}

// Settings are the plugin's configuration.
type Settings struct {
	IngressClass string `json:"ingressClass"`
	RetrySeconds int64  `json:"retrySeconds"`
}

func (s Settings) retry() time.Duration { return time.Duration(s.RetrySeconds) * time.Second }

// or is the number, or what counts if there is none.
func or(number *int64, absent int64) int64 {
	if number == nil {
		return absent
	}
	return *number
}
