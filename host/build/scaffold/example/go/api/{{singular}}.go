// Package api has the types of the kind {{Kind}}. `pintle crds` makes crds/ of them: the lines with + are controller-gen's markers.
//
// +groupName={{group}}
// +versionName={{version}}
package api

import pintle "pintle.dev/sdk"

// {{Kind}} has members, which a ConfigMap lists.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:path={{plural}},scope={{scope}},categories=all
// +kubebuilder:printcolumn:name="Members",type=integer,JSONPath=.status.members
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
	// Names of the members.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +listType=set
	Members []string `json:"members"`

	// Member that leads, if any.
	Lead string `json:"lead,omitempty"`

	// How the ConfigMap lists the members.
	//
	// +kubebuilder:default=Lines
	Format Format `json:"format,omitempty"`
}

// Format is how the ConfigMap lists the members: one in each line, or all in one line with commas.
//
// +kubebuilder:validation:Enum=Lines;Commas
type Format string

const (
	Lines  Format = "Lines"
	Commas Format = "Commas"
)

// {{Kind}}Status is what the controller has found.
type {{Kind}}Status struct {
	// Number of members.
	Members int32 `json:"members,omitempty"`

	// Generation of the spec that the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready is the only condition.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []pintle.Condition `json:"conditions,omitempty"`
}
