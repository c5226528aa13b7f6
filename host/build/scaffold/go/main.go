// Command {{name}} is a plugin that keeps a ConfigMap with its ports beside each Service.
package main

import (
	"strconv"

	pintle "pintle.dev/sdk"
)

func init() { pintle.Export(reconcile) }

func main() {}

var (
	serviceKind   = pintle.KindOf("v1", "Service")
	configMapKind = pintle.KindOf("v1", "ConfigMap")
)

// service is what the manifest keeps of a Service.
type service struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Spec     struct {
		Ports []struct {
			Name string `json:"name"`
			Port int64  `json:"port"`
		} `json:"ports"`
	} `json:"spec"`
}

// configMap is what is applied.
type configMap struct {
	pintle.TypeMeta
	Metadata pintle.ObjectMeta `json:"metadata"`
	Data     map[string]string `json:"data"`
}

// reconcile computes the changes for one Service. It is pure: the same view gives the same outcome.
func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) {
	owner, err := pintle.Get[service](lister, serviceKind, key.Namespace, key.Name)
	if owner == nil || err != nil || pintle.IsDeleting(owner) {
		return nil, err
	}
	wanted := configMap{
		TypeMeta: pintle.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		Metadata: pintle.ObjectMeta{Name: key.Name + "-ports"},
		Data:     map[string]string{},
	}
	for _, port := range owner.Spec.Ports {
		number := strconv.FormatInt(port.Port, 10)
		name := port.Name
		if name == "" {
			name = number
		}
		wanted.Data[name] = number
	}
	plan, err := pintle.NewChildren(owner, "{{name}}").Own(configMapKind).Want(wanted).Plan(lister)
	if err != nil {
		return nil, err
	}
	for _, conflict := range plan.Conflicts {
		pintle.Warnf("%s", conflict)
	}
	return new(pintle.Outcome).Then(pintle.Sequential(plan.Mutations...)), nil
}
