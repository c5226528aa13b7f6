package pintletest

import (
	"fmt"
	"maps"
	"strings"
	"time"

	pintle "pintle.dev/sdk"
)

// manifest is what a fixture needs of one. The format is the host's; other fields are its business.
type manifest struct {
	Watches   []watch            `json:"watches"`
	Queues    []queue            `json:"queues"`
	Config    map[string]setting `json:"config"`
	Discovery bool               `json:"discovery"`
}

type watch struct {
	Kind          *pintle.Kind `json:"kind"`
	Every         any          `json:"every"`
	Namespace     *string      `json:"namespace"`
	LabelSelector *string      `json:"labelSelector"`
	Fields        []string     `json:"fields"`
	Whole         bool         `json:"whole"`
	Indexes       []index      `json:"indexes"`
	Selects       *selects     `json:"selects"`
}

type index struct {
	Name  string `json:"name"`
	Field string `json:"field"`
}

type selects struct {
	Field string `json:"field"`
	Form  string `json:"form"`
	// Empty is everything if an empty selector matches every object; otherwise it matches none.
	Empty string `json:"empty"`
}

type queue struct {
	Name string `json:"name"`
}

type setting struct {
	Type    string `json:"type"`
	Default any    `json:"default"`
}

// configOf is the configuration as the controller sees it, with defaults where the input gives no value.
func (m manifest) configOf(given map[string]any) (map[string]any, error) {
	config := map[string]any{}
	for name, setting := range m.Config {
		if setting.Default != nil {
			config[name] = setting.Default
		}
	}
	maps.Copy(config, given)
	for name, setting := range m.Config {
		value, there := config[name]
		if !there {
			continue
		}
		var err error
		if config[name], err = setting.seen(value); err != nil {
			return nil, fmt.Errorf("config: %s: %w", name, err)
		}
	}
	return config, nil
}

// seen is a value as the controller sees it: a duration is in whole milliseconds, rounded up.
func (s setting) seen(value any) (any, error) {
	text, isText := value.(string)
	if s.Type != "duration" || !isText {
		return value, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		return nil, err
	}
	return (duration + time.Millisecond - 1).Milliseconds(), nil
}

// segments splits a field path such as spec.nodeName or metadata.annotations['example.com/x'].
func segments(path string) []string {
	var segments []string
	for rest := path; rest != ""; rest = strings.TrimPrefix(rest, ".") {
		if quoted, found := strings.CutPrefix(rest, "['"); found {
			if name, after, found := strings.Cut(quoted, "']"); found {
				segments, rest = append(segments, name), after
				continue
			}
		}
		end := strings.IndexAny(rest, ".[")
		if end < 0 {
			end = len(rest)
		}
		if end == 0 {
			panic(fault(fmt.Sprintf("%q is not a field path: write spec.nodeName or metadata.labels['example.com/x']", path)))
		}
		segments, rest = append(segments, rest[:end]), rest[end:]
	}
	return segments
}

// valuesAt collects the values at a path; a list on the way stands for its elements, and so does one at the end.
func valuesAt(object any, path []string) []any {
	switch value := object.(type) {
	case []any:
		var found []any
		for _, item := range value {
			found = append(found, valuesAt(item, path)...)
		}
		return found
	case map[string]any:
		if len(path) > 0 {
			if member, there := value[path[0]]; there {
				return valuesAt(member, path[1:])
			}
			return nil
		}
	}
	if len(path) > 0 {
		return nil
	}
	return []any{object}
}

// project copies only what the paths name.
func project(object any, paths [][]string) any {
	switch value := object.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, member := range value {
			var below [][]string
			whole := false
			for _, path := range paths {
				if len(path) > 0 && path[0] == name {
					below = append(below, path[1:])
					whole = whole || len(path) == 1
				}
			}
			if whole {
				kept[name] = member
			} else if len(below) > 0 {
				kept[name] = project(member, below)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(value))
		for i, item := range value {
			kept[i] = project(item, paths)
		}
		return kept
	default:
		return object
	}
}
