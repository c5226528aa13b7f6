// Package api has the types of the kind {{Kind}}. `pintle crds` makes crds/ of them: the lines with + are controller-gen's markers.
//
// +groupName={{group}}
// +versionName={{version}}
package api

import pintle "pintle.dev/sdk"

// {{Kind}} has a text, which a ConfigMap shows.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path={{plural}},scope={{scope}},categories=all
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=.status.conditions[?(@.type=="Ready")].status
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=.metadata.creationTimestamp
type {{Kind}} struct {
	pintle.TypeMeta `json:",inline"`
	Metadata        pintle.ObjectMeta `json:"metadata,omitempty"`

	Spec   {{Kind}}Spec   `json:"spec"`
	Status {{Kind}}Status `json:"status,omitempty"`
}

// {{Kind}}Spec defines the desired state of {{Kind}}.
type {{Kind}}Spec struct {
	// Text of the ConfigMap.
	Text string `json:"text"`
}

// {{Kind}}Status is what the controller has found.
type {{Kind}}Status struct {
	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready is the only condition.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []pintle.Condition `json:"conditions,omitempty"`
}
