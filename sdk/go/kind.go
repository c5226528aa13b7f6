package pintle

import (
	"fmt"
	"strings"
)

// Kind is a kind as the API server names it. Group is empty for the core group.
//
// In JSON it is its text form, such as "apps/v1/Deployment".
type Kind struct {
	Group   string
	Version string
	Name    string
}

// ParseKind reads the text form: "apps/v1/Deployment", or "v1/Pod" in the core group.
func ParseKind(text string) (Kind, error) {
	end := strings.LastIndexByte(text, '/')
	if end <= 0 || end == len(text)-1 || strings.Count(text, "/") > 2 {
		return Kind{}, fmt.Errorf("%q is not a kind such as v1/Pod or apps/v1/ReplicaSet", text)
	}
	return KindOf(text[:end], text[end+1:]), nil
}

// MustKind is [ParseKind] for kinds that stand in the source. It panics if text is not a kind.
func MustKind(text string) Kind {
	kind, err := ParseKind(text)
	if err != nil {
		panic("pintle.MustKind: " + err.Error())
	}
	return kind
}

// KindOf is the kind that apiVersion and kind of an object or an owner reference name.
func KindOf(apiVersion, kind string) Kind {
	group, version, found := strings.Cut(apiVersion, "/")
	if !found {
		group, version = "", apiVersion
	}
	return Kind{Group: group, Version: version, Name: kind}
}

// APIVersion is the apiVersion of its objects: "apps/v1", or "v1" in the core group.
func (k Kind) APIVersion() string {
	if k.Group == "" {
		return k.Version
	}
	return k.Group + "/" + k.Version
}

// String is the text form.
func (k Kind) String() string { return k.APIVersion() + "/" + k.Name }

// MarshalText writes the text form.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the text form.
func (k *Kind) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKind(string(text))
	return err
}

// Key is the root object of a run: one entry of one work queue of this plugin. The object may be gone by now.
//
// The tick of a queue, with tickMs in the manifest, has the kind pintle/v1/Tick, no namespace, and the name of the queue. It is no
// object, so [Get] finds nothing.
type Key struct {
	// Queue is the name that the manifest declares.
	Queue string
	// Kind of the root object: that of the queue, unless the queue takes objects of several kinds.
	Kind Kind
	// Namespace is empty if the root object is cluster-scoped.
	Namespace string
	Name      string
}

// Ref names one object. Namespace is empty for cluster-scoped objects.
type Ref struct {
	Kind      Kind
	Namespace string
	Name      string
}

// String is such as "v1/ConfigMap default/web".
func (r Ref) String() string { return r.Kind.String() + " " + fullName(r.Namespace, r.Name) }

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
