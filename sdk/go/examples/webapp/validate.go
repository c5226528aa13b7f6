package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

var (
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	configKey = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,253}$`)
)

// problemsOf says what is wrong with a WebApp, in the order of the spec, all at once: what the schema of the custom resource cannot say,
// or should not.
func problemsOf(app *WebApp) []string {
	var problems []string
	wrong := func(is bool, format string, args ...any) {
		if is {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	spec, name := &app.Spec, app.Metadata.Name
	wrong(!label.MatchString(name) || name[0] < 'a', "metadata.name: not a name for a Service: %s", name)
	wrong(spec.Image == "", "spec.image: is required")
	wrong(or(spec.Replicas, 1) < 0, "spec.replicas: must not be negative")
	port := or(spec.Port, 8080)
	wrong(port < 1 || port > 65535, "spec.port: must be between 1 and 65535")
	wrong(spec.Host != "" && !isDNSName(spec.Host), "spec.host: not a DNS name: %s", spec.Host)
	for _, key := range slices.Sorted(maps.Keys(spec.Config)) {
		wrong(!configKey.MatchString(key), "spec.config: not a key: %s", key)
	}
	if autoscaling := spec.Autoscaling; autoscaling != nil {
		least, most := or(autoscaling.MinReplicas, 1), autoscaling.MaxReplicas
		wrong(least < 1, "spec.autoscaling.minReplicas: must be at least 1")
		wrong(most < 1, "spec.autoscaling.maxReplicas: must be at least 1")
		wrong(least >= 1 && most >= 1 && least > most, "spec.autoscaling: minReplicas %d is more than maxReplicas %d", least, most)
		wrong(or(autoscaling.CPUPercent, 80) < 1, "spec.autoscaling.cpuPercent: must be at least 1")
	}
	if budget := spec.DisruptionBudget; budget != nil {
		wrong((budget.MinAvailable == nil) == (budget.MaxUnavailable == nil),
			"spec.disruptionBudget: needs either minAvailable or maxUnavailable")
		wrong(or(budget.MinAvailable, 0) < 0, "spec.disruptionBudget.minAvailable: must not be negative")
		wrong(or(budget.MaxUnavailable, 0) < 0, "spec.disruptionBudget.maxUnavailable: must not be negative")
	}
	return problems
}

// isDNSName wants labels with dots between them, at most 253 bytes.
func isDNSName(text string) bool {
	isNoLabel := func(part string) bool { return !label.MatchString(part) }
	return len(text) <= 253 && !slices.ContainsFunc(strings.Split(text, "."), isNoLabel)
}
