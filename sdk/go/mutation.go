package pintle

import "encoding/json"

// Mutation is one write, and what to do with its result. Its methods return a changed copy.
//
// Objects and patches are given as anything that encoding/json writes: structs, maps, [encoding/json.RawMessage]; a string is JSON
// text. What cannot be written panics. Structs in fields with omitempty that are zero are left out, which encoding/json would not do.
type Mutation struct {
	Verb Verb
	Kind Kind
	// Namespace is empty for cluster-scoped objects, and in updates, which have it in the object.
	Namespace string
	// Name is empty in creates and updates, which have it in the object, and in deletes of a collection.
	Name        string
	Subresource string
	// Body is the object of a create or an update, or the patch.
	Body  json.RawMessage
	Patch PatchType
	// FieldManager, Force: of a server-side apply.
	FieldManager string
	Force        bool
	// UID, ResourceVersion of the object: what must still hold when a patch or a delete arrives; otherwise it fails with a conflict.
	UID             string
	ResourceVersion string
	// Propagation: of deletes; the kind's own default if empty.
	Propagation Propagation
	// GracePeriodSeconds: of a delete; the kind's own default if nil.
	GracePeriodSeconds *int
	// LabelSelector: of a delete of a collection; all if empty.
	LabelSelector string
	// Event: of an event on its own.
	Event *Event
	// OnSuccess is recorded when the write has succeeded, OnFailure when it has failed.
	OnSuccess *Event
	OnFailure *Event
	// Tolerate: refusals that count as success. They stop nothing, cause no retry and record no event.
	Tolerate []Refusal
}

// Verb is what a mutation does.
type Verb string

// Verbs of mutations.
const (
	VerbCreate           Verb = "create"
	VerbUpdate           Verb = "update"
	VerbPatch            Verb = "patch"
	VerbDelete           Verb = "delete"
	VerbDeleteCollection Verb = "delete-collection"
	VerbEvent            Verb = "event"
)

// PatchType is the form of a patch.
type PatchType string

// Forms of patches.
const (
	// JSONPatch is RFC 6902: a list of operations.
	JSONPatch PatchType = "json"
	// MergePatch is RFC 7386.
	MergePatch PatchType = "merge"
	// StrategicMergePatch is Kubernetes' own, for built-in kinds only.
	StrategicMergePatch PatchType = "strategic-merge"
	// ApplyPatch is server-side apply: see [Apply].
	ApplyPatch PatchType = "apply"
)

// Propagation says what becomes of the objects that a deleted one owns.
type Propagation string

// Kubernetes' own propagation policies.
const (
	Background Propagation = "background"
	Foreground Propagation = "foreground"
	Orphan     Propagation = "orphan"
)

// Refusal is how the API server refused a write, as far as controllers distinguish refusals.
type Refusal string

// Refusals.
const (
	NotFound      Refusal = "not-found"
	AlreadyExists Refusal = "already-exists"
	Conflict      Refusal = "conflict"
	Invalid       Refusal = "invalid"
	Forbidden     Refusal = "forbidden"
	// NamespaceTerminating: a create is forbidden because the namespace is being deleted.
	NamespaceTerminating Refusal = "namespace-terminating"
)

// Create creates an object; apiVersion and kind are filled in by the host. metadata.generateName works.
func Create(kind Kind, namespace string, object any) Mutation {
	return Mutation{Verb: VerbCreate, Kind: kind, Namespace: namespace, Body: bodyOf(object)}
}

// Update replaces an object. It must carry metadata.resourceVersion or metadata.uid, so that a late write fails, and every field that
// shall stay: read it as [Object] or with a type that has all fields. A patch is often better.
func Update(kind Kind, object any) Mutation {
	return Mutation{Verb: VerbUpdate, Kind: kind, Body: bodyOf(object)}
}

// UpdateStatus replaces the status of an object, which must be given whole, metadata included. [PatchStatus] is often better.
func UpdateStatus(kind Kind, object any) Mutation {
	return Update(kind, object).WithSubresource("status")
}

// Patch changes part of an object. For server-side apply see [Apply].
func Patch(kind Kind, namespace, name string, form PatchType, patch any) Mutation {
	return Mutation{Verb: VerbPatch, Kind: kind, Namespace: namespace, Name: name, Patch: form, Body: bodyOf(patch)}
}

// Apply is a server-side apply: it makes the fields of object what it says, creates it if it is not there, and removes fields that an
// earlier apply of the same field manager had and this one has not. It takes over fields that other managers own if force.
func Apply(kind Kind, namespace, name, fieldManager string, force bool, object any) Mutation {
	mutation := Patch(kind, namespace, name, ApplyPatch, object)
	mutation.FieldManager, mutation.Force = fieldManager, force
	return mutation
}

// Delete deletes an object; one that is gone already counts as done. Give it the uid that was seen, so that a namesake survives.
func Delete(kind Kind, namespace, name string) Mutation {
	return Mutation{Verb: VerbDelete, Kind: kind, Namespace: namespace, Name: name}
}

// DeleteCollection deletes the objects of a kind in a namespace that the selector matches, or all if it is empty.
func DeleteCollection(kind Kind, namespace, labelSelector string) Mutation {
	return Mutation{Verb: VerbDeleteCollection, Kind: kind, Namespace: namespace, LabelSelector: labelSelector}
}

// Record records an event on its own. It is recorded in order and never fails the step.
func Record(event Event) Mutation { return Mutation{Verb: VerbEvent, Event: &event} }

// WithSubresource writes a subresource instead of the object. No effect on deletes and events.
func (m Mutation) WithSubresource(name string) Mutation {
	m.Subresource = name
	return m
}

// WithUID: the object must still have this uid. For patches and deletes; creates and updates carry it in the object.
func (m Mutation) WithUID(uid string) Mutation {
	m.UID = uid
	return m
}

// WithResourceVersion: the object must still have this resourceVersion. For patches and deletes.
func (m Mutation) WithResourceVersion(resourceVersion string) Mutation {
	m.ResourceVersion = resourceVersion
	return m
}

// WithPropagation says what becomes of the dependents, for deletes.
func (m Mutation) WithPropagation(propagation Propagation) Mutation {
	m.Propagation = propagation
	return m
}

// WithGracePeriod is the time in seconds that the object gets to shut down, for deletes of one object.
func (m Mutation) WithGracePeriod(seconds int) Mutation {
	m.GracePeriodSeconds = &seconds
	return m
}

// WithEvent records an event once the write has succeeded.
func (m Mutation) WithEvent(onSuccess Event) Mutation {
	m.OnSuccess = &onSuccess
	return m
}

// WithEventOnFailure records an event if the write fails.
func (m Mutation) WithEventOnFailure(onFailure Event) Mutation {
	m.OnFailure = &onFailure
	return m
}

// Tolerating lets refusals count as success.
func (m Mutation) Tolerating(refusals ...Refusal) Mutation {
	m.Tolerate = append(m.Tolerate[:len(m.Tolerate):len(m.Tolerate)], refusals...)
	return m
}

// EventType is Normal or Warning.
type EventType string

// Types of events.
const (
	Normal  EventType = "Normal"
	Warning EventType = "Warning"
)

// Event is a Kubernetes Event; the host adds time, source, count and series, and drops floods. Make one with [NewEvent].
type Event struct {
	Regarding    Ref
	RegardingUID string
	Type         EventType
	// Reason is in upper camel case, for machines.
	Reason string
	// Message is for humans, at most 1,024 bytes. In events on success and on failure, {name} stands for the name of the written
	// object and {error} for the server's message.
	Message string
}

// NewEvent is an event about an object of a kind that the manifest watches, or beside the key's object. The object has apiVersion and
// kind, as every object from a [Lister] has.
func NewEvent(object any, eventType EventType, reason, message string) Event {
	h := headerOf(object)
	return Event{
		Regarding:    Ref{h.kind(), h.Metadata.Namespace, h.Metadata.Name},
		RegardingUID: h.Metadata.UID, Type: eventType, Reason: reason, Message: message,
	}
}
