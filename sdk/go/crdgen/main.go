// Command crdgen prints the CustomResourceDefinitions of the kinds in Go packages. They follow from the types and from kubebuilder's
// markers in their comments: it is controller-gen for types that embed pintle.TypeMeta instead of metav1.TypeMeta, which would make a
// component several times as large. `pintle crds` calls it.
//
// Usage: crdgen FOLDER PACKAGE..., for example crdgen . ./api
package main

import (
	"errors"
	"fmt"
	"go/types"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-tools/pkg/crd"
	crdmarkers "sigs.k8s.io/controller-tools/pkg/crd/markers"
	"sigs.k8s.io/controller-tools/pkg/loader"
	"sigs.k8s.io/controller-tools/pkg/markers"
	"sigs.k8s.io/yaml"
)

// sdk is the path of the SDK's package; its types stand for those of metav1.
const sdk = "pintle.dev/sdk"

const metav1 = "k8s.io/apimachinery/pkg/apis/meta/v1"

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: crdgen FOLDER PACKAGE...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string, patterns []string) error {
	roots, err := loader.LoadRootsWithConfig(&packages.Config{Dir: folder}, patterns...)
	if err != nil {
		return fmt.Errorf("load %s: %w", strings.Join(patterns, ", "), err)
	}
	registry := &markers.Registry{}
	if err := crdmarkers.Register(registry); err != nil {
		return err
	}
	parser := &crd.Parser{Collector: &markers.Collector{Registry: registry}, Checker: &loader.TypeChecker{}}
	crd.AddKnownTypes(parser)
	parser.PackageOverrides[sdk] = sdkTypes
	for _, root := range roots {
		parser.NeedPackage(root)
	}
	kinds := kindsOf(parser)
	for _, kind := range kinds {
		parser.NeedCRDFor(kind, nil)
	}
	// Types are checked as far as they are needed, so errors of types mean nothing.
	if loader.PrintErrors(roots, packages.TypeError) {
		return errors.New("there is no definition, because the types or their markers are wrong")
	}
	if len(kinds) == 0 {
		return fmt.Errorf("%s: no type embeds pintle.TypeMeta and has pintle.ObjectMeta, as a kind does", strings.Join(patterns, ", "))
	}
	for _, kind := range kinds {
		definition := parser.CustomResourceDefinitions[kind]
		crd.FixTopLevelMetadata(definition)
		if err := show(definition); err != nil {
			return err
		}
	}
	return nil
}

// kindsOf is the kinds of the packages: structs that embed TypeMeta and have ObjectMeta, of the SDK or of metav1.
func kindsOf(parser *crd.Parser) []schema.GroupKind {
	var kinds []schema.GroupKind
	for ident, info := range parser.Types {
		group := parser.GroupVersions[ident.Package].Group
		if group == "" || ident.Package.PkgPath == metav1 {
			continue
		}
		hasType, hasObject := false, false
		for _, field := range info.Fields {
			switch typeOf(ident.Package, field) {
			case sdk + ".TypeMeta", metav1 + ".TypeMeta":
				hasType = hasType || field.Name == ""
			case sdk + ".ObjectMeta", metav1 + ".ObjectMeta":
				hasObject = true
			}
		}
		kind := schema.GroupKind{Group: group, Kind: ident.Name}
		if hasType && hasObject && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// typeOf is the full name of the type of a field, if it has a name.
func typeOf(pkg *loader.Package, field markers.FieldInfo) string {
	named, ok := types.Unalias(pkg.TypesInfo.TypeOf(field.RawField.Type)).(*types.Named)
	if !ok || named.Obj().Pkg() == nil {
		return ""
	}
	return loader.NonVendorPath(named.Obj().Pkg().Path()) + "." + named.Obj().Name()
}

// sdkTypes gives the types of the SDK the schemas of those of metav1 that they stand for.
func sdkTypes(parser *crd.Parser, pkg *loader.Package) {
	is := func(name string, props apiextensions.JSONSchemaProps) {
		parser.Schemata[crd.TypeIdent{Name: name, Package: pkg}] = props
	}
	text := func(description string) apiextensions.JSONSchemaProps {
		return apiextensions.JSONSchemaProps{Type: "string", Description: description}
	}
	is("TypeMeta", apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"apiVersion": text("Group and version of the kind."),
		"kind":       text("The kind."),
	}})
	is("ObjectMeta", apiextensions.JSONSchemaProps{Type: "object"})
	is("Condition", condition())
	parser.AddPackage(pkg)
}

// condition is the schema of metav1.Condition.
func condition() apiextensions.JSONSchemaProps {
	limit := func(length int64) *int64 { return &length }
	least := 0.0
	return apiextensions.JSONSchemaProps{
		Type:     "object",
		Required: []string{"lastTransitionTime", "message", "reason", "status", "type"},
		Properties: map[string]apiextensions.JSONSchemaProps{
			"lastTransitionTime": {Type: "string", Format: "date-time"},
			"message":            {Type: "string", MaxLength: limit(32768)},
			"observedGeneration": {Type: "integer", Format: "int64", Minimum: &least},
			"reason": {
				Type: "string", MinLength: limit(1), MaxLength: limit(1024), Pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
			},
			"status": {Type: "string", Enum: []apiextensions.JSON{{Raw: []byte(`"True"`)}, {Raw: []byte(`"False"`)}, {Raw: []byte(`"Unknown"`)}}},
			"type": {
				Type: "string", MaxLength: limit(316),
				Pattern: `^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`,
			},
		},
	}
}

// show prints a definition without what the API server writes.
func show(definition apiextensions.CustomResourceDefinition) error {
	text, err := yaml.Marshal(definition)
	if err != nil {
		return err
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		return err
	}
	delete(object, "status")
	if text, err = yaml.Marshal(object); err != nil {
		return err
	}
	_, err = fmt.Printf("---\n%s", text)
	return err
}
