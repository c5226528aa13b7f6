package pintle

// Query says which objects to list; all that is set must hold. The zero value: every object of the kind.
type Query struct {
	// Namespace: all if empty.
	Namespace string
	// LabelSelector is in the syntax of kubectl: a=b,c in (d,e),!f. One that does not parse is a fault.
	LabelSelector string
	// Owner selects by owner references: see [Controller], [ControllerOrOrphan] and [AnyOwner].
	Owner Owner
	// Index selects by an index that the manifest declares.
	Index Index
	// Whole objects instead of the projection; the watch must declare whole.
	Whole bool
}

// Index selects the objects for which the index Name of the manifest has this Value. The zero value selects all.
type Index struct {
	Name  string
	Value string
}

// Owner selects by owner references. The zero value selects all.
type Owner struct {
	By  OwnedBy
	UID string
}

// OwnedBy is a way to select by owner references.
type OwnedBy string

// Ways to select by owner references.
const (
	OwnedByController         OwnedBy = "controller"
	OwnedByControllerOrOrphan OwnedBy = "controller-or-orphan"
	OwnedByAny                OwnedBy = "any"
)

// Controller selects the objects whose controller has this uid.
func Controller[U ~string](uid U) Owner { return Owner{OwnedByController, string(uid)} }

// ControllerOrOrphan selects the objects whose controller has this uid, and those without a controller, which a selector could adopt.
func ControllerOrOrphan[U ~string](uid U) Owner {
	return Owner{OwnedByControllerOrOrphan, string(uid)}
}

// AnyOwner selects the objects of which any owner has this uid.
func AnyOwner[U ~string](uid U) Owner { return Owner{OwnedByAny, string(uid)} }

// APIResource is a resource that the API server has.
type APIResource struct {
	Kind Kind `json:"kind"`
	// Plural is the name in URLs.
	Plural       string   `json:"plural"`
	Namespaced   bool     `json:"namespaced"`
	Verbs        []string `json:"verbs"`
	Subresources []string `json:"subresources"`
	// Preferred says whether the version is the one that the server prefers for the group.
	Preferred bool `json:"preferred"`
}

// MutationFailure is what became of a mutation of the previous run of this key that was neither carried out nor tolerated.
type MutationFailure struct {
	// Step and Position are its place in the previous outcome.
	Step     int `json:"step"`
	Position int `json:"position"`
	// Verb is create, update, patch, delete or delete-collection.
	Verb string `json:"verb"`
	Kind Kind   `json:"kind"`
	// Object: its name is empty if it was to be generated.
	Object struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"object"`
	Subresource string `json:"subresource"`
	// Code is the HTTP status code; 0 if no answer came.
	Code int `json:"code"`
	// Reason is that of the server's Status, for example AlreadyExists; or Transport, NotGranted.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Causes are the reasons of the causes, for example NamespaceTerminating.
	Causes []string `json:"causes"`
}

// Need is a read that the cache cannot answer. See [Live] for the short way, and [NeedObject], [NeedList], [NeedPath], [NeedDiscovery].
type Need struct {
	Type NeedType
	// Kind, Namespace: of an object or a list.
	Kind      Kind
	Namespace string
	// Name: of an object.
	Name string
	// LabelSelector, Limit: of a list.
	LabelSelector string
	Limit         int
	// Path: of a raw read.
	Path string
}

// NeedType is a kind of reads.
type NeedType string

// Kinds of reads.
const (
	LiveObject NeedType = "object"
	LiveList   NeedType = "list"
	RawPath    NeedType = "path"
	Discovery  NeedType = "discovery"
)

// NeedObject reads one object. Answer: the object.
func NeedObject(kind Kind, namespace, name string) Need {
	return Need{Type: LiveObject, Kind: kind, Namespace: namespace, Name: name}
}

// NeedList lists at most limit objects of a namespace (of all if it is empty) that the selector matches (all if it is empty).
// Answer: a JSON array of objects with apiVersion, kind and metadata only.
func NeedList(kind Kind, namespace, labelSelector string, limit int) Need {
	return Need{Type: LiveList, Kind: kind, Namespace: namespace, LabelSelector: labelSelector, Limit: limit}
}

// NeedPath gets a path of the API server, for example of an aggregated API. Answer: the body.
func NeedPath(path string) Need { return Need{Type: RawPath, Path: path} }

// NeedDiscovery discovers the API server's resources now: [Lister.Resources] shows them once it is answered.
// Answer: a JSON array of the group versions that did not answer; what was known of them is still shown.
func NeedDiscovery() Need { return Need{Type: Discovery} }

// Answer is the API server's answer to a need: a body or a refusal.
type Answer struct {
	Body    []byte
	Refusal *APIError
}

// APIError is the API server's refusal of a live read.
type APIError struct {
	// Code is the HTTP status code; 0 if no answer came.
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Error is the server's message.
func (e *APIError) Error() string { return e.Message }
