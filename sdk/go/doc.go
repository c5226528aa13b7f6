// Package pintle is for writing Kubernetes controllers as Pintle plugins.
//
// A plugin is a main package, a manifest.yaml and a function:
//
//	package main
//
//	import pintle "pintle.dev/sdk"
//
//	func init() { pintle.Export(reconcile) }
//
//	func main() {}
//
//	func reconcile(key pintle.Key, lister pintle.Lister) (*pintle.Outcome, error) { ... }
//
// The function is called with a key of a work queue, gets no reason for the run, and must be pure: the same view gives the same outcome. The host
// keeps the caches, carries out the outcome, and does not call again for the same key before the caches have seen the writes. A run that
// fails is repeated with a growing delay.
//
// To read: [Get], [List], [Query], [Selecting], [Dependents], [Config]. From the API server itself: [Live], [LiveSubresource], [Ask].
// To write: [Outcome], [Sequential], [Parallel], [Create], [Patch], [Apply], [Delete]; to want a set of children: [Children].
// To clean up: [HasFinalizer], [AddFinalizer], [RemoveFinalizer]. To report: [PatchStatus], [SetCondition], [NewEvent], [Infof].
// To notice changes: [Hash]. To step through a case with a debugger, and to start a cluster for a test: package pintletest.
//
// # Other keys
//
// A run can make other keys of the plugin run, at once or later, for example the tick of a queue:
//
//	outcome.Wake(pintle.Key{Queue: "nodes", Kind: nodes, Name: "n1"})
//	outcome.WakeAfter(pintle.Key{Queue: "rounds", Kind: pintle.MustKind("pintle/v1/Tick"), Name: "rounds"}, time.Minute)
//
// So can a mapping: see [ExportMapping]. [Outcome.RequeueAt] runs the key itself again at a time, however far away.
//
// # What the cache does not have
//
// The first round of a run ends with an error that names what is needed; return it. The host calls again with the answer. Everything
// here is granted or declared in the manifest, and refused otherwise.
//
//	// A subresource.
//	scale, err := pintle.LiveSubresource[Scale](lister, deployments, namespace, name, "scale")
//	// Objects that a field selector matches; the cache need not have them.
//	need := pintle.NeedList(pods, "", "", 500).WithFields("spec.nodeName=n1").WithDetail(pintle.DetailWhole)
//	text, err := pintle.Ask(lister, need)
//	// A verdict of the API server, here on a SubjectAccessReview.
//	status, err := pintle.Review[Status](lister, accessReviews, "", review)
//	// A token by a key, and a certificate by an authority, which are settings; neither enters the plugin.
//	token, err := pintle.Ask(lister, pintle.NeedJWT("key", map[string]any{"sub": name}))
//	pem, err := pintle.Ask(lister, pintle.NeedCertificate(request))
//	// An operation of an endpoint outside of the cluster, which the operator has bound.
//	body, err := pintle.Ask(lister, pintle.NeedCall("desk", "look-up", map[string]any{"name": name}))
//
// A refusal is an [APIError], whose Reason can be looked at by [errors.As].
//
// # Failing and writing
//
// An error that is returned drops the outcome. [Outcome.Fail] keeps it: everything is carried out, and the run has failed all the same.
//
//	// The other children are written, and the key is tried again.
//	return outcome.Fail(err), nil
//
// # Metrics
//
// [Outcome.Observe] adds a sample for a metric of the manifest. With [Outcome.ObserveAt] and [Outcome.LastPlace] it counts only when a
// write has succeeded, or failed. [Outcome.RunLabel] sets a label for metrics of runs. Time that passes is measured by [Lister.Uptime].
//
// # What is different in a plugin
//
// "pintle build" compiles with GOOS=wasip1. There are no files, no network and no environment; the clock and random numbers are always the
// same, so use [Lister.Now] and [Lister.Uptime]. Goroutines work but there is one processor, and none shall outlive the run. Instances are
// slow to start, so the manifest says "instances: pooled": variables of the package survive a run, and must not change what a run says.
//
// A panic ends the run as a fault: its type, message and place are written to the log with the key, and the instance is replaced.
//
// Objects can be of any type that fits their JSON. Types of k8s.io/api make a component of 16 MB out of one of 4 MB, and slow to start;
// [ObjectMeta], [Condition] and structs with the fields that you need do not.
//
// # Not here
//
// The manifest: its format is documented by the host.
package pintle
