package pintle

import "slices"

// HasFinalizer says whether an object has a finalizer.
func HasFinalizer(object any, name string) bool {
	return slices.Contains(headerOf(object).Metadata.Finalizers, name)
}

// AddFinalizer is a patch that adds a finalizer as the last one. An object that has one is deleted only after it was taken out: add
// yours before you make anything that no owner reference reaches, and take it out once that is cleaned up.
//
// The API server refuses the patch as a conflict if the object has changed since it was read, because the patch holds the whole list;
// the run is then repeated.
func AddFinalizer(kind Kind, object any, name string) Mutation {
	h := headerOf(object)
	finalizers := h.Metadata.Finalizers
	if !slices.Contains(finalizers, name) {
		finalizers = append(finalizers, name)
	}
	return h.replaceFinalizers(kind, finalizers)
}

// RemoveFinalizer is a patch that takes a finalizer out, and leaves those of others. A conflict as for [AddFinalizer].
func RemoveFinalizer(kind Kind, object any, name string) Mutation {
	h := headerOf(object)
	is := func(finalizer string) bool { return finalizer == name }
	return h.replaceFinalizers(kind, slices.DeleteFunc(h.Metadata.Finalizers, is))
}

func (h *header) replaceFinalizers(kind Kind, finalizers []string) Mutation {
	if finalizers == nil {
		finalizers = []string{}
	}
	patch := Object{"metadata": Object{"finalizers": finalizers}}
	return Patch(kind, h.Metadata.Namespace, h.Metadata.Name, MergePatch, patch).
		WithUID(h.Metadata.UID).WithResourceVersion(h.Metadata.ResourceVersion)
}
