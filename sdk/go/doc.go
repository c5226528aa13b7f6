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
// The function is called with a key of a work queue, is never told why, and must be pure: the same view gives the same outcome. The host
// keeps the caches, carries out the outcome, and does not call again for the same key before the caches have seen the writes. A run that
// fails is repeated with a growing delay.
//
// To read: [Get], [List], [Query], [Selecting], [Dependents], [Config]. From the API server itself: [Live], [Ask].
// To write: [Outcome], [Sequential], [Parallel], [Create], [Patch], [Apply], [Delete]; to want a set of children: [Children].
// To clean up: [HasFinalizer], [AddFinalizer], [RemoveFinalizer]. To tell: [PatchStatus], [SetCondition], [NewEvent], [Infof].
// To notice changes: [Hash]. To test without WebAssembly: package pintletest.
//
// # What is different in a plugin
//
// "pintle build" compiles with GOOS=wasip1. There are no files, no network and no environment; the clock and random numbers are always the
// same, so use [Lister.Now]. Goroutines work but there is one processor, and none shall outlive the run. Instances are slow to start, so
// the manifest says "instances: pooled": variables of the package survive a run, and must not change what a run says.
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
