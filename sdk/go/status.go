package pintle

import "fmt"

// PatchStatus is a patch from the status of object, as it was read, to the desired one; no mutation if they are equal. A member that
// the status has and the wanted one has not is removed. null and absent are the same.
//
// The API server refuses the patch as a conflict if the object has changed since it was read; the run is then repeated.
// Put it into a last step by [Outcome.Always], if it shall also report failures.
func PatchStatus(kind Kind, object, status any) []Mutation {
	current := withoutNulls(mustTree(object))
	members, _ := current.(map[string]any)
	wanted := withoutNulls(mustTree(status))
	if equalTrees(members["status"], wanted) {
		return nil
	}
	h := headerOf(object)
	patch := Object{"status": replacing(members["status"], wanted)}
	return []Mutation{Patch(kind, h.Metadata.Namespace, h.Metadata.Name, MergePatch, patch).
		WithSubresource("status").WithResourceVersion(h.Metadata.ResourceVersion)}
}

func mustTree(v any) any {
	tree, err := treeOf(v)
	if err != nil {
		panic(fmt.Sprintf("pintle: %T cannot be written as JSON: %v", v, err))
	}
	return tree
}

func withoutNulls(tree any) any {
	switch value := tree.(type) {
	case map[string]any:
		for name, member := range value {
			if member == nil {
				delete(value, name)
			} else {
				withoutNulls(member)
			}
		}
	case []any:
		for _, item := range value {
			withoutNulls(item)
		}
	}
	return tree
}

// replacing is wanted in full, with null for what must go: a merge patch leaves alone what it does not name.
func replacing(current, wanted any) any {
	members, ok := wanted.(map[string]any)
	if !ok {
		return wanted
	}
	before, ok := current.(map[string]any)
	if !ok {
		return wanted
	}
	patch := make(map[string]any, len(members))
	for name, value := range members {
		patch[name] = replacing(before[name], value)
	}
	for name := range before {
		if _, stays := members[name]; !stays {
			patch[name] = nil
		}
	}
	return patch
}
