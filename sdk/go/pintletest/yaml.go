package pintletest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// yamlToJSON knows anchors and merge keys. Times stay the text that they are, as in Kubernetes.
func yamlToJSON(text []byte) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	timesAreText(&document)
	var value any
	if err := document.Decode(&value); err != nil {
		return nil, err
	}
	value, err := withTextKeys(value)
	if err != nil {
		return nil, err
	}
	return json.Marshal(value)
}

func timesAreText(node *yaml.Node) {
	if node.ShortTag() == "!!timestamp" {
		node.Tag = "!!str"
	}
	for _, inner := range node.Content {
		timesAreText(inner)
	}
}

// withTextKeys makes maps such as JSON has them.
func withTextKeys(value any) (any, error) {
	var err error
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if v[key], err = withTextKeys(inner); err != nil {
				return nil, err
			}
		}
	case map[any]any:
		members := make(map[string]any, len(v))
		for key, inner := range v {
			name := fmt.Sprint(key)
			if members[name], err = withTextKeys(inner); err != nil {
				return nil, err
			}
		}
		return members, nil
	case []any:
		for i, inner := range v {
			if v[i], err = withTextKeys(inner); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// readYAML decodes YAML into a struct with JSON tags. strict refuses fields that it does not have.
func readYAML(text []byte, into any, strict bool) error {
	converted, err := yamlToJSON(text)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(converted))
	decoder.UseNumber()
	if strict {
		decoder.DisallowUnknownFields()
	}
	return decoder.Decode(into)
}

// treeOf is a value as JSON: maps, slices, strings, bools, nil and json.Number.
func treeOf(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

func parse(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	err := decoder.Decode(&tree)
	return tree, err
}
