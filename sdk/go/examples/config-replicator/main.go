// Command config-replicator is a plugin that copies ConfigMaps into other namespaces: one with the annotation
//
//	config-replicator.example.com/to: team=web,tier=front
//
// is copied under its own name into every namespace that has all of these labels. Copies follow their source, and go with it, with its
// annotation, or with the namespace's labels. A ConfigMap that was there before is left alone.
package main

import (
	"fmt"
	"maps"
	"strings"

	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

const (
	toAnnotation     = "config-replicator.example.com/to"
	sourceAnnotation = "config-replicator.example.com/source"
)

var (
	configMapKind = pintle.MustKind("v1/ConfigMap")
	namespaceKind = pintle.MustKind("v1/Namespace")
)

// ConfigMap is a source or a copy.
type ConfigMap struct {
	pintle.TypeMeta
	Metadata   pintle.ObjectMeta `json:"metadata"`
	Data       map[string]string `json:"data,omitempty"`
	BinaryData map[string]string `json:"binaryData,omitempty"`
}

// source is the namespace and name of the ConfigMap that this one is a copy of, or empty.
func (c *ConfigMap) source() string { return c.Metadata.Annotations[sourceAnnotation] }

// Namespace is where a copy may go.
type Namespace struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
}

// reconcile says what should become of the copies of one ConfigMap.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	source, err := pintle.Get[ConfigMap](lister, configMapKind, key.Namespace, key.Name)
	if err != nil {
		return nil, err
	}
	labels, err := wantedLabels(source)
	if err != nil {
		event := pintle.NewEvent(source, pintle.Warning, "InvalidAnnotation", fmt.Sprintf("%s: %v", toAnnotation, err))
		return new(pintle.Outcome).Then(pintle.Sequential(pintle.Record(event))), nil
	}
	namespaces, err := targets(source, labels, lister)
	if err != nil {
		return nil, err
	}
	origin := key.Namespace + "/" + key.Name
	copies, err := pintle.List[ConfigMap](lister, configMapKind, pintle.Query{Index: pintle.Index{Name: "source", Value: origin}})
	if err != nil {
		return nil, err
	}
	var changes []pintle.Mutation
	wanted := map[string]bool{}
	for _, namespace := range namespaces {
		wanted[namespace] = true
		change, err := replicate(source, origin, namespace, lister)
		if err != nil {
			return nil, err
		}
		changes = append(changes, change...)
	}
	for _, replica := range copies {
		if meta := replica.Metadata; !wanted[meta.Namespace] && meta.DeletionTimestamp == nil {
			changes = append(changes, pintle.Delete(configMapKind, meta.Namespace, meta.Name).WithUID(meta.UID))
		}
	}
	return new(pintle.Outcome).Then(pintle.Parallel(changes...)), nil
}

// wantedLabels are those of the namespaces that shall have a copy; nil if none shall. A copy is not copied again.
func wantedLabels(source *ConfigMap) (map[string]string, error) {
	if source == nil || source.source() != "" || source.Metadata.DeletionTimestamp != nil {
		return nil, nil
	}
	text, isSource := source.Metadata.Annotations[toAnnotation]
	if !isSource {
		return nil, nil
	}
	return parseLabels(text)
}

// targets are the namespaces that have all of these labels, but for the source's own.
func targets(source *ConfigMap, labels map[string]string, lister pintle.Lister) ([]string, error) {
	if labels == nil {
		return nil, nil
	}
	namespaces, err := pintle.List[Namespace](lister, namespaceKind, pintle.Query{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, namespace := range namespaces {
		meta := namespace.Metadata
		if meta.Name != source.Metadata.Namespace && meta.DeletionTimestamp == nil && hasAll(meta.Labels, labels) {
			names = append(names, meta.Name)
		}
	}
	return names, nil
}

// parseLabels reads name=value,name=value.
func parseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not a label such as team=web", pair)
		}
		labels[name] = value
	}
	return labels, nil
}

func hasAll(labels, wanted map[string]string) bool {
	for name, value := range wanted {
		if found, there := labels[name]; !there || found != value {
			return false
		}
	}
	return true
}

// replicate is what makes the copy in one namespace what it should be, if anything.
func replicate(source *ConfigMap, origin, namespace string, lister pintle.Lister) ([]pintle.Mutation, error) {
	replica := ConfigMap{
		TypeMeta: source.TypeMeta,
		Metadata: pintle.ObjectMeta{
			Name: source.Metadata.Name, Namespace: namespace, Annotations: map[string]string{sourceAnnotation: origin},
		},
		Data: source.Data, BinaryData: source.BinaryData,
	}
	there, err := pintle.Get[ConfigMap](lister, configMapKind, namespace, source.Metadata.Name)
	switch {
	case err != nil:
		return nil, err
	case there == nil:
		return []pintle.Mutation{pintle.Create(configMapKind, namespace, replica)}, nil
	case there.source() != origin:
		message := fmt.Sprintf("%s/%s is not a copy of this ConfigMap", namespace, source.Metadata.Name)
		return []pintle.Mutation{pintle.Record(pintle.NewEvent(source, pintle.Warning, "NotReplicated", message))}, nil
	case maps.Equal(there.Data, replica.Data) && maps.Equal(there.BinaryData, replica.BinaryData):
		return nil, nil
	default:
		// With the labels, annotations and finalizers of others.
		there.Data, there.BinaryData = replica.Data, replica.BinaryData
		return []pintle.Mutation{pintle.Update(configMapKind, there)}, nil
	}
}
