package pintletest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	pintle "pintle.dev/sdk"
)

// maxRounds is how often one run is called, and maxNeeds how many reads it takes in one round, as in the host.
const (
	maxRounds = 8
	maxNeeds  = 256
)

// maxUptime is a hundred years, in seconds.
const maxUptime = 100 * 365 * 24 * 3600

// input is the first document of a case. The package documents it.
type input struct {
	Key struct {
		Queue     string      `json:"queue"`
		Kind      pintle.Kind `json:"kind"`
		Namespace string      `json:"namespace"`
		Name      string      `json:"name"`
	} `json:"key"`
	Now string `json:"now"`
	// Uptime is in seconds.
	Uptime       float64                  `json:"uptime"`
	Objects      []map[string]any         `json:"objects"`
	Live         *[]map[string]any        `json:"live"`
	Config       map[string]any           `json:"config"`
	State        map[string]string        `json:"state"`
	Attempt      int                      `json:"attempt"`
	Failures     []pintle.MutationFailure `json:"failures"`
	Resources    []pintle.APIResource     `json:"resources"`
	Raw          map[string]any           `json:"raw"`
	Subresources []subresource            `json:"subresources"`
	Reviews      []review                 `json:"reviews"`
	Signatures   []signature              `json:"signatures"`
	Calls        []call                   `json:"calls"`
	Discovery    discovery                `json:"discovery"`
	// Settle is for pintle test.
	Settle any `json:"settle"`
	// Define is a place for YAML anchors.
	Define any `json:"define"`
}

// discovery is what a discovery finds.
type discovery struct {
	// Resources are the same as before if absent.
	Resources *[]pintle.APIResource `json:"resources"`
	Failed    []string              `json:"failed"`
	Error     *pintle.APIError      `json:"error"`
}

// Fixture is one run: a key and the world that it sees.
type Fixture struct {
	Key    pintle.Key
	Lister *Lister
}

// Parse reads a manifest and an input, both YAML, in the form that the package documents.
func Parse(manifestYAML, inputYAML []byte) (*Fixture, error) {
	var m manifest
	if err := readYAML(manifestYAML, &m, false); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	in := input{Now: "2026-01-01T00:00:00Z"}
	if err := readYAML(inputYAML, &in, true); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if in.Key.Kind == (pintle.Kind{}) || in.Key.Name == "" {
		return nil, fmt.Errorf("input: key needs kind and name")
	}
	if !(in.Uptime >= 0 && in.Uptime <= maxUptime) {
		return nil, fmt.Errorf("input: uptime: %v is not a number of seconds from 0 to %v", in.Uptime, float64(maxUptime))
	}
	if in.Key.Queue == "" {
		if len(m.Queues) == 0 {
			return nil, fmt.Errorf("manifest: it declares no queue")
		}
		in.Key.Queue = m.Queues[0].Name
	}
	config, err := m.configOf(in.Config)
	if err != nil {
		return nil, err
	}
	in.Config = config
	objects, err := storeAll(in.Objects)
	if err != nil {
		return nil, err
	}
	live := objects
	if in.Live != nil {
		if live, err = storeAll(*in.Live); err != nil {
			return nil, err
		}
	}
	key := pintle.Key{Queue: in.Key.Queue, Kind: in.Key.Kind, Namespace: in.Key.Namespace, Name: in.Key.Name}
	return &Fixture{key, &Lister{manifest: m, input: in, objects: objects, live: live}}, nil
}

// Run calls the function until it needs no more reads. It gives the result, and the reads.
// It panics with a text that begins with "fault:" where the host would end the run with a fault.
func (f *Fixture) Run(reconcile pintle.ReconcileFunc) (pintle.Result, []pintle.Need) {
	f.Lister.asked = nil
	for range maxRounds {
		result := pintle.Conclude(reconcile(f.Key, f.Lister))
		if result.Outcome == nil || len(result.Outcome.Needs) == 0 {
			return result, f.Lister.asked
		}
		if n := len(result.Outcome.Needs); n > maxNeeds {
			panic(fault(fmt.Sprintf("%d needs in one round, more than %d", n, maxNeeds)))
		}
		for _, need := range result.Outcome.Needs {
			if !f.Lister.isAsked(need) {
				f.Lister.asked = append(f.Lister.asked, need)
			}
		}
	}
	panic(fault(fmt.Sprintf("the plugin still asks for reads after %d rounds: %v", maxRounds, f.Lister.asked)))
}

// fault is what a fixture panics with where the host would end the run.
type fault string

func (f fault) Error() string { return "fault: " + string(f) }

// stored is an object with what queries need of it.
type stored struct {
	ref  pintle.Ref
	meta pintle.ObjectMeta
	tree map[string]any
}

func storeAll(objects []map[string]any) ([]*stored, error) {
	all := make([]*stored, len(objects))
	for i, object := range objects {
		var err error
		if all[i], err = store(object); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b *stored) int {
		return cmp.Or(
			cmp.Compare(a.ref.Kind.Group, b.ref.Kind.Group), cmp.Compare(a.ref.Kind.Version, b.ref.Kind.Version),
			cmp.Compare(a.ref.Kind.Name, b.ref.Kind.Name), cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name),
		)
	})
	return all, nil
}

func store(object map[string]any) (*stored, error) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	metadata, _ := object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	if apiVersion == "" || kind == "" || name == "" {
		return nil, fmt.Errorf("input: an object needs apiVersion, kind and metadata.name: %v", object)
	}
	if metadata["uid"] == nil {
		metadata["uid"] = "uid-" + name
	}
	if metadata["resourceVersion"] == nil {
		metadata["resourceVersion"] = "1"
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	s := &stored{tree: object}
	if err := json.Unmarshal(text, &s.meta); err != nil {
		return nil, fmt.Errorf("input: metadata of %s %s: %w", kind, name, err)
	}
	s.ref = pintle.Ref{Kind: pintle.KindOf(apiVersion, kind), Namespace: s.meta.Namespace, Name: name}
	return s, nil
}

func (s *stored) owned(by pintle.Owner) bool {
	controller := ""
	for _, reference := range s.meta.OwnerReferences {
		isController := reference.Controller != nil && *reference.Controller
		if by.By == pintle.OwnedByAny && reference.UID == by.UID {
			return true
		}
		if isController && controller == "" {
			controller = reference.UID
		}
	}
	switch by.By {
	case pintle.OwnedByAny:
		return false
	case pintle.OwnedByControllerOrOrphan:
		return controller == "" || controller == by.UID
	default:
		return controller == by.UID
	}
}
