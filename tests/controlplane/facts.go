package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// since is the first version that has a gate; 0.0 for those without versions.
func since(specs featuregate.VersionedSpecs) string {
	for _, spec := range specs {
		if spec.PreRelease != featuregate.PreAlpha {
			return spec.Version.String()
		}
	}
	return "0.0"
}

// facts prints what a program that follows this version of kube-controller-manager has in common with it, one fact a line, sorted:
// feature gates, flags, controllers and their roles. `cargo xtask upstream` compares the facts of two versions.
func facts() {
	var lines []string
	add := func(words ...any) { lines = append(lines, strings.TrimSuffix(fmt.Sprintln(words...), "\n")) }
	versioned := feature.DefaultMutableFeatureGate.GetAllVersioned()
	for name, gate := range feature.DefaultMutableFeatureGate.GetAll() {
		stage := strings.ToLower(string(gate.PreRelease))
		if stage == "" {
			stage = "ga"
		}
		add("gate", name, stage, gate.Default, gate.LockToDefault, since(versioned[name]))
	}
	kcm.NewControllerManagerCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		// Texts of gates and controllers are facts of their own.
		if flag.Name != "feature-gates" && flag.Name != "controllers" {
			add("flag", "--"+flag.Name, flag.Value.Type(), fmt.Sprintf("%q", flag.DefValue))
		}
	})
	for name, controller := range kcm.NewControllerDescriptors() {
		state := "on"
		for _, gate := range controller.GetRequiredFeatureGates() {
			if !feature.DefaultFeatureGate.Enabled(gate) {
				state = "off"
			}
		}
		if controller.IsDisabledByDefault() {
			state = "off"
		}
		add("controller", name, state, controller.GetAliases(), controller.GetRequiredFeatureGates())
	}
	for _, role := range bootstrappolicy.ControllerRoles() {
		for _, rule := range role.Rules {
			add("role", role.Name, rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs)
		}
	}
	slices.Sort(lines)
	fmt.Println(strings.Join(lines, "\n"))
}
