package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// sourceIndex finds the copies of a source.
const sourceIndex = "source"

// ConfigMapReconciler copies a ConfigMap that says so into every Namespace that has certain labels.
type ConfigMapReconciler struct {
	client.Client
	Recorder events.EventRecorder
	// Domain is what the annotations begin with.
	Domain string
}

func (r *ConfigMapReconciler) toAnnotation() string     { return r.Domain + "/to" }
func (r *ConfigMapReconciler) sourceAnnotation() string { return r.Domain + "/source" }

// Reconcile makes the copies of one ConfigMap what they should be.
func (r *ConfigMapReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var copies corev1.ConfigMapList
	if err := r.List(ctx, &copies, client.MatchingFields{sourceIndex: req.String()}); err != nil {
		return ctrl.Result{}, err
	}
	stale := map[string]*corev1.ConfigMap{}
	for i := range copies.Items {
		stale[copies.Items[i].Namespace] = &copies.Items[i]
	}

	var source corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &source); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if wanted := source.Annotations[r.toAnnotation()]; wanted != "" && source.DeletionTimestamp == nil && source.Annotations[r.sourceAnnotation()] == "" {
		selector, err := parseLabels(wanted)
		if err != nil {
			r.Recorder.Eventf(&source, nil, corev1.EventTypeWarning, "InvalidAnnotation", "Replicate", "%s: %v", r.toAnnotation(), err)
			return ctrl.Result{}, nil
		}
		var namespaces corev1.NamespaceList
		if err := r.List(ctx, &namespaces, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return ctrl.Result{}, err
		}
		for i := range namespaces.Items {
			namespace := &namespaces.Items[i]
			if namespace.Name == source.Namespace || namespace.DeletionTimestamp != nil {
				continue
			}
			delete(stale, namespace.Name)
			if err := r.replicate(ctx, &source, namespace.Name); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	for _, unwanted := range stale {
		uid := client.Preconditions{UID: &unwanted.UID}
		if err := r.Delete(ctx, unwanted, uid); client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{}, nil
}

// replicate creates or updates the copy in one Namespace.
func (r *ConfigMapReconciler) replicate(ctx context.Context, source *corev1.ConfigMap, namespace string) error {
	name := types.NamespacedName{Namespace: namespace, Name: source.Name}
	wanted := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        source.Name,
			Annotations: map[string]string{r.sourceAnnotation(): client.ObjectKeyFromObject(source).String()},
		},
		Data:       source.Data,
		BinaryData: source.BinaryData,
	}
	var found corev1.ConfigMap
	if err := r.Get(ctx, name, &found); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		return r.Create(ctx, wanted)
	}
	if found.Annotations[r.sourceAnnotation()] != wanted.Annotations[r.sourceAnnotation()] {
		r.Recorder.Eventf(source, nil, corev1.EventTypeWarning, "NotReplicated", "Replicate", "%s is not a copy of this ConfigMap", name)
		return nil
	}
	if equality.Semantic.DeepEqual(found.Data, wanted.Data) && equality.Semantic.DeepEqual(found.BinaryData, wanted.BinaryData) {
		return nil
	}
	wanted.ResourceVersion = found.ResourceVersion
	return r.Update(ctx, wanted)
}

// parseLabels reads name=value,name=value.
func parseLabels(text string) (labels.Selector, error) {
	set := labels.Set{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(pair), "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not a label such as team=web", pair)
		}
		set[name] = value
	}
	return labels.ValidatedSelectorFromSet(set)
}

// SetupWithManager says which changes concern which ConfigMap.
func (r *ConfigMapReconciler) SetupWithManager(mgr ctrl.Manager) error {
	index := func(object client.Object) []string {
		if source := object.GetAnnotations()[r.sourceAnnotation()]; source != "" {
			return []string{source}
		}
		return nil
	}
	if err := mgr.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, sourceIndex, index); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		For(&corev1.ConfigMap{}).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.sourceOf)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.allSources)).
		Complete(r)
}

// sourceOf is the ConfigMap of which this one is a copy.
func (r *ConfigMapReconciler) sourceOf(_ context.Context, object client.Object) []reconcile.Request {
	namespace, name, found := strings.Cut(object.GetAnnotations()[r.sourceAnnotation()], "/")
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// allSources is every ConfigMap that is copied: which ones a Namespace concerns is seen in their runs.
func (r *ConfigMapReconciler) allSources(ctx context.Context, _ client.Object) []reconcile.Request {
	var all corev1.ConfigMapList
	if err := r.List(ctx, &all); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range all.Items {
		if all.Items[i].Annotations[r.toAnnotation()] != "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}
