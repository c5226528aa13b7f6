package pintle

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// treeOf is v as JSON: maps, slices, strings, bools, nil and [json.Number].
//
// Structs in fields that say omitempty are left out if they are zero. encoding/json keeps them, so that types of k8s.io/api would
// write "status": {} and "creationTimestamp": null, and a server-side apply would claim these fields.
func treeOf(v any) (any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tree, err := parseTree(text)
	if err != nil {
		return nil, err
	}
	prune(reflect.ValueOf(v), tree)
	return tree, nil
}

func parseTree(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	err := decoder.Decode(&tree)
	return tree, err
}

// bodyOf is the JSON text of an object or a patch. A string is JSON text already.
func bodyOf(v any) json.RawMessage {
	if text, ok := v.(string); ok {
		v = json.RawMessage(text)
	}
	tree, err := treeOf(v)
	if err != nil {
		panic(fmt.Sprintf("pintle: %T cannot be written as JSON: %v", v, err))
	}
	return textOf(tree)
}

// jsonOf is the JSON text of what is sent as it is: fields of structs stay in their order. A string is JSON text already.
func jsonOf(v any) string {
	if text, ok := v.(string); ok {
		if !json.Valid([]byte(text)) {
			panic(fmt.Sprintf("pintle: %q is not JSON", text))
		}
		return text
	}
	text, err := encode(v)
	if err != nil {
		panic(fmt.Sprintf("pintle: %T cannot be written as JSON: %v", v, err))
	}
	return string(text)
}

// textOf writes a tree. Trees have nothing that cannot be written.
func textOf(tree any) json.RawMessage {
	text, err := encode(tree)
	if err != nil {
		panic("pintle: " + err.Error())
	}
	return text
}

// encode is json.Marshal without escapes for HTML.
func encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSpace(text.Bytes()), err
}

// prune takes out of tree what v has as zero structs in fields with omitempty.
func prune(v reflect.Value, tree any) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() || encodesItself(v) {
			return
		}
		v = v.Elem()
	}
	if !v.IsValid() || encodesItself(v) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if members, ok := tree.(map[string]any); ok {
			pruneStruct(v, members)
		}
	case reflect.Map:
		members, ok := tree.(map[string]any)
		if !ok || v.Type().Key().Kind() != reflect.String {
			return
		}
		for entries := v.MapRange(); entries.Next(); {
			prune(entries.Value(), members[entries.Key().String()])
		}
	case reflect.Slice, reflect.Array:
		items, ok := tree.([]any)
		for i := 0; ok && i < v.Len() && i < len(items); i++ {
			prune(v.Index(i), items[i])
		}
	}
}

func pruneStruct(v reflect.Value, members map[string]any) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, omitEmpty := jsonName(field)
		switch {
		case field.Anonymous && name == "":
			prune(v.Field(i), members)
		case !field.IsExported() || name == "-":
		case omitEmpty && field.Type.Kind() == reflect.Struct && v.Field(i).IsZero():
			delete(members, name)
		default:
			prune(v.Field(i), members[name])
		}
	}
}

// jsonName is the name of a field in JSON; empty for an embedded struct whose fields are those of the outer one.
func jsonName(field reflect.StructField) (name string, omitEmpty bool) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && !field.Anonymous {
		name = field.Name
	}
	for option := range strings.SplitSeq(options, ",") {
		omitEmpty = omitEmpty || option == "omitempty"
	}
	return name, omitEmpty
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func encodesItself(v reflect.Value) bool {
	if !v.IsValid() || v.Kind() == reflect.Interface {
		return false
	}
	t := v.Type()
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}

// equalTrees says whether two trees are the same value.
func equalTrees(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			other, there := b[name]
			if !there || !equalTrees(value, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equalTrees(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalNumbers(a, b)
	default:
		return a == b
	}
}

func equalNumbers(a, b json.Number) bool {
	if a == b {
		return true
	}
	if isInteger(a) && isInteger(b) {
		// A float does not hold all of them.
		return a == "-0" && b == "0" || a == "0" && b == "-0"
	}
	x, errX := a.Float64()
	y, errY := b.Float64()
	return errX == nil && errY == nil && x == y
}

func isInteger(number json.Number) bool {
	return !strings.ContainsAny(string(number), ".eE")
}
