package pintle

import "time"

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

// Need is a read that the cache cannot answer, or another question. [Ask] gives the answer; [Live], [LiveSubresource] and [Review] are
// shorter. Make one with [NeedObject], [NeedList], [NeedPath], [NeedDiscovery], [NeedReview], [NeedJWT], [NeedCertificate], [NeedCall].
//
// At most 256 in one outcome, and 7 outcomes with needs in one run; more are a fault. An answer of more than 8 MiB, or one that makes the
// run's answers more than 64 MiB, is a refusal with the reason TooLarge.
type Need struct {
	Type NeedType
	// Kind, Namespace: of an object, a list or a review.
	Kind      Kind
	Namespace string
	// Name, Subresource: of an object.
	Name        string
	Subresource string
	// LabelSelector, FieldSelector, Detail, Limit: of a list.
	LabelSelector string
	FieldSelector string
	Detail        Detail
	Limit         int
	// Path: of a raw read.
	Path string
	// Key is the setting that is the key of a token.
	Key string
	// Certificate: of a certificate.
	Certificate *CertificateRequest
	// Endpoint, Operation, Timeout: of a call.
	Endpoint  string
	Operation string
	Timeout   time.Duration
	// Body is the JSON text of a review, of the claims of a token, or of what a call sends.
	Body string
}

// NeedType is a kind of needs.
type NeedType string

// Kinds of needs.
const (
	LiveObject        NeedType = "object"
	LiveList          NeedType = "list"
	RawPath           NeedType = "path"
	Discovery         NeedType = "discovery"
	LiveReview        NeedType = "review"
	SignedJWT         NeedType = "sign-jwt"
	SignedCertificate NeedType = "sign-certificate"
	EndpointCall      NeedType = "call"
)

// Detail is how much of each object the answer to a list has.
type Detail string

// Details of lists.
const (
	// DetailMetadata is apiVersion, kind and metadata, without managedFields.
	DetailMetadata Detail = ""
	// DetailProjection is what the watch of the kind declares; only for kinds that the manifest watches.
	DetailProjection Detail = "projection"
	// DetailWhole is everything but managedFields.
	DetailWhole Detail = "whole"
)

// NeedObject reads one object. Answer: the object.
func NeedObject(kind Kind, namespace, name string) Need {
	return Need{Type: LiveObject, Kind: kind, Namespace: namespace, Name: name}
}

// NeedList lists at most limit objects of a namespace (of all if it is empty) that the selector matches (all if it is empty).
// Answer: a JSON array of objects with apiVersion, kind and metadata only, unless [Need.WithDetail] asks for more.
func NeedList(kind Kind, namespace, labelSelector string, limit int) Need {
	return Need{Type: LiveList, Kind: kind, Namespace: namespace, LabelSelector: labelSelector, Limit: limit}
}

// NeedPath gets a path of the API server, for example of an aggregated API. Answer: the body.
func NeedPath(path string) Need { return Need{Type: RawPath, Path: path} }

// NeedDiscovery discovers the API server's resources now: [Lister.Resources] shows them once it is answered.
// Answer: a JSON array of the group versions that did not answer; what was known of them is still shown.
func NeedDiscovery() Need { return Need{Type: Discovery} }

// NeedReview asks the API server for a verdict: it creates a review, which is stored nowhere. Only kinds of authorization.k8s.io and
// authentication.k8s.io whose names end in Review; the manifest must grant to create them. namespace is empty for cluster-scoped kinds.
// apiVersion and kind of the review are filled in by the host. Answer: the review with its status.
//
// The review, as the claims of a token and the body of a call, is anything that encoding/json writes; a string is JSON text, and is sent
// as it is. What cannot be written panics.
func NeedReview(kind Kind, namespace string, review any) Need {
	return Need{Type: LiveReview, Kind: kind, Namespace: namespace, Body: jsonOf(review)}
}

// NeedJWT asks for a JSON Web Token with these claims, an object as in [NeedReview]. key is a setting of type key; the key itself never
// enters the plugin. The host adds the header: alg, by the key, and kid. Answer: the token, a compact JWS; it is text, not JSON.
func NeedJWT(key string, claims any) Need {
	return Need{Type: SignedJWT, Key: key, Body: jsonOf(claims)}
}

// NeedCertificate asks for a certificate, X.509 v3, that is never one of an authority. The host checks the request's own signature and
// draws the serial number. Answer: the certificate in PEM; it is text, not JSON. If the authority's own certificate has expired, the
// refusal has the reason Expired.
func NeedCertificate(request CertificateRequest) Need {
	return Need{Type: SignedCertificate, Certificate: &request}
}

// NeedCall asks for one operation of an endpoint outside of the cluster, which the manifest declares and the operator has bound. The host
// sends it once, before the outcome is accepted: the plugin must expect to see its own half-done work. The body is as in [NeedReview].
// Answer: the body of the response, JSON.
func NeedCall(endpoint, operation string, body any) Need {
	return Need{Type: EndpointCall, Endpoint: endpoint, Operation: operation, Body: jsonOf(body)}
}

// WithSubresource reads a subresource, for example scale, instead of the object. The grant must list it. For objects.
func (n Need) WithSubresource(name string) Need {
	n.Subresource = name
	return n
}

// WithFields keeps the objects that a field selector matches, in the syntax of kubectl: spec.nodeName=n1. The API server knows which
// fields a kind has for this. For lists.
func (n Need) WithFields(selector string) Need {
	n.FieldSelector = selector
	return n
}

// WithDetail says how much of each object the answer has. For lists.
func (n Need) WithDetail(detail Detail) Need {
	n.Detail = detail
	return n
}

// WithTimeout is how long to wait for the answer: at most 30 seconds, which is the default. In milliseconds on the wire, rounded up.
// For calls.
func (n Need) WithTimeout(timeout time.Duration) Need {
	n.Timeout = timeout
	return n
}

// CertificateRequest is a certificate to sign.
type CertificateRequest struct {
	// Authority is a setting of type authority: a certificate and its key, which never enter the plugin.
	Authority string
	// Request is in PEM: one CERTIFICATE REQUEST. Subject and subject alternative names are those of the request, nothing else of it is.
	Request string
	// Usages are key usages and extended key usages, as certificates.k8s.io names them: "digital signature", "client auth".
	Usages []string
	// NotBefore and NotAfter are in RFC 3339. The host cuts NotAfter to the end of the authority's certificate.
	NotBefore string
	NotAfter  string
}

// Answer is the answer to a need: a body or a refusal.
type Answer struct {
	Body    []byte
	Refusal *APIError
}

// APIError is a refusal: that of the API server, of an endpoint, or of the host, for example with the reason NotGranted.
type APIError struct {
	// Code is the HTTP status code; 0 if no answer came.
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Error is the server's message.
func (e *APIError) Error() string { return e.Message }
