package pintle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// TypeMeta is embedded in types of objects. It has the JSON form of metav1.TypeMeta.
type TypeMeta struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
}

// ObjectMeta is the metadata of an object, in the JSON form of metav1.ObjectMeta.
//
// Types of k8s.io/api work as well everywhere in this package, but make a component about five times as large and as slow to start.
type ObjectMeta struct {
	Name              string            `json:"name,omitempty"`
	GenerateName      string            `json:"generateName,omitempty"`
	Namespace         string            `json:"namespace,omitempty"`
	UID               string            `json:"uid,omitempty"`
	ResourceVersion   string            `json:"resourceVersion,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp *time.Time        `json:"creationTimestamp,omitempty"`
	DeletionTimestamp *time.Time        `json:"deletionTimestamp,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Annotations       map[string]string `json:"annotations,omitempty"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
}

// OwnerReference is an entry of metadata.ownerReferences.
type OwnerReference struct {
	APIVersion         string `json:"apiVersion"`
	Kind               string `json:"kind"`
	Name               string `json:"name"`
	UID                string `json:"uid"`
	Controller         *bool  `json:"controller,omitempty"`
	BlockOwnerDeletion *bool  `json:"blockOwnerDeletion,omitempty"`
}

// Object is an untyped object: JSON as Go's maps, slices and scalars.
type Object = map[string]any

// header is what every object has.
type header struct {
	TypeMeta
	Metadata ObjectMeta `json:"metadata"`
}

func (h *header) kind() Kind { return KindOf(h.APIVersion, h.Kind) }

// headerOf reads the header of an object of any type. It panics if there is none, because then the program is wrong, not the world.
func headerOf(object any) *header {
	var h header
	text, isText := object.(json.RawMessage)
	if !isText {
		var err error
		if text, err = json.Marshal(headerFields(object)); err != nil {
			panic(fmt.Sprintf("pintle: %T cannot be written as JSON: %v", object, err))
		}
	}
	if err := json.Unmarshal(text, &h); err != nil {
		panic(fmt.Sprintf("pintle: %T is not an object with metadata: %v", object, err))
	}
	return &h
}

// headerFields spares encoding the rest of an object, where its type allows it.
func headerFields(object any) any {
	value := reflect.ValueOf(object)
	for value.Kind() == reflect.Pointer && !value.IsNil() && !encodesItself(value) {
		value = value.Elem()
	}
	if encodesItself(value) {
		return object
	}
	fields := map[string]any{}
	switch value.Kind() {
	case reflect.Struct:
		addHeaderFields(value, fields)
	case reflect.Map:
		for _, name := range headerNames {
			key := reflect.ValueOf(name)
			if !key.Type().AssignableTo(value.Type().Key()) {
				return object
			}
			if field := value.MapIndex(key); field.IsValid() {
				fields[name] = field.Interface()
			}
		}
	default:
		return object
	}
	return fields
}

var headerNames = []string{"apiVersion", "kind", "metadata"}

func addHeaderFields(value reflect.Value, fields map[string]any) {
	for i := range value.NumField() {
		field := value.Type().Field(i)
		name, _ := jsonName(field)
		switch {
		case field.Anonymous && name == "" && field.Type.Kind() == reflect.Struct:
			addHeaderFields(value.Field(i), fields)
		case field.IsExported() && (name == "apiVersion" || name == "kind" || name == "metadata"):
			fields[name] = value.Field(i).Interface()
		}
	}
}

// ControllerRef is the reference of an object to its controller, owner, which blocks a foreground deletion of it.
// owner has apiVersion, kind, metadata.name and metadata.uid, as every object from a [Lister] has.
func ControllerRef(owner any) OwnerReference {
	return headerOf(owner).controllerRef()
}

func (h *header) controllerRef() OwnerReference {
	yes := true
	return OwnerReference{
		APIVersion: h.APIVersion, Kind: h.Kind, Name: h.Metadata.Name, UID: h.Metadata.UID,
		Controller: &yes, BlockOwnerDeletion: &yes,
	}
}

// ControllerOf is the controller reference of an object, or nil.
func ControllerOf(object any) *OwnerReference {
	return headerOf(object).Metadata.controller()
}

func (m *ObjectMeta) controller() *OwnerReference {
	for i := range m.OwnerReferences {
		if reference := &m.OwnerReferences[i]; reference.Controller != nil && *reference.Controller {
			return reference
		}
	}
	return nil
}

// IsControlledBy says whether the controller of an object has this uid.
func IsControlledBy[U ~string](object any, uid U) bool {
	controller := ControllerOf(object)
	return controller != nil && controller.UID == string(uid)
}

// IsDeleting says whether an object is being deleted, and waits for its finalizers or dependents.
func IsDeleting(object any) bool {
	return headerOf(object).Metadata.DeletionTimestamp != nil
}
