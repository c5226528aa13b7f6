package pintle

import (
	"encoding/json"
	"fmt"
	"slices"
)

// AppliedAnnotation is the annotation of a child with the [Hash] of what was wanted when it was last applied.
const AppliedAnnotation = "pintle.dev/applied"

// Children is the desired set of children of an owner: what is missing is created, what differs updated, what fits adopted, and what
// is no longer wanted deleted.
//
// Children are written by server-side apply, so fields that others set (defaults, an autoscaler's replicas) stay as they are, and a
// field that is no longer wanted goes. What is applied carries a controller reference to the owner and the annotation
// [AppliedAnnotation], by which the next run sees that nothing has changed. Later changes by others are found by comparing
// the desired objects with the cached ones: the manifest watches every owned kind, whole or with all fields that are set in children and
// metadata.{annotations,labels,ownerReferences,deletionTimestamp}. Write values as the API server does: it turns cpu: 1000m into
// cpu: 1, which would look like a change in every run.
//
// A wanted object without a controller is adopted first: a merge patch adds the controller reference to metadata.ownerReferences and
// changes nothing else. Its change causes another run, which applies the rest.
//
// The manifest asks for {verbs: [create, patch, delete], kinds: [...], of: controlled}, with adopt: true in it if children are to be
// adopted. Without adopt: true an adoption fails with the reason NotGranted, and the other mutations are sent all the same. If the owner
// is cluster-scoped, the grant lists the children's namespaces, or all with namespaces: ["*"].
//
// An object that another controller has is not touched, and every write of an object that is there carries its uid; an adoption carries
// its resourceVersion, too, so that it keeps all other owner references.
type Children struct {
	owner   *header
	manager string
	kinds   []Kind
	wanted  []any
}

// ChildrenPlan is what [Children.Plan] found.
type ChildrenPlan struct {
	// Mutations are applies and adoptions in the order of the wanted objects, then deletes in the order of the owned kinds, by name.
	Mutations []Mutation
	// Conflicts are wanted objects that other objects control. They are left alone.
	Conflicts []ChildConflict
	// Waiting are wanted objects that are being deleted; they are applied once they are gone, which causes a run.
	Waiting []Ref
}

// ChildConflict is a wanted object that another object controls.
type ChildConflict struct {
	Child          Ref
	ControllerKind Kind
	ControllerName string
}

// String is such as "v1/Service default/web is controlled by example.com/v1/Gateway web".
func (c ChildConflict) String() string {
	return fmt.Sprintf("%s is controlled by %s %s", c.Child, c.ControllerKind, c.ControllerName)
}

// NewChildren has no children yet. owner has apiVersion, kind, metadata.name, namespace and uid, as every object from a [Lister] has.
// manager is the field manager of the applies, 1 to 128 bytes: usually the name of the plugin, and the same for ever, because it is by
// this name that fields which are no longer wanted are found.
func NewChildren(owner any, manager string) *Children {
	return &Children{owner: headerOf(owner), manager: manager}
}

// Own says that the owner has children of these kinds: those that are not wanted are deleted, also when none is.
func (c *Children) Own(kinds ...Kind) *Children {
	c.kinds = append(c.kinds, kinds...)
	return c
}

// Want adds wanted objects, with apiVersion, kind (TypeMeta in types of k8s.io/api), metadata.name, and all that shall be applied.
// Their namespace is the owner's if they name none.
func (c *Children) Want(objects ...any) *Children {
	c.wanted = append(c.wanted, objects...)
	return c
}

// Plan compares the desired objects with the cached ones.
//
// The error is a [TerminalError], as only other code helps: a wanted object has no name, is wanted twice, is of a kind that is not
// owned, lives in another namespace than its owner, or cannot be hashed.
func (c *Children) Plan(lister Lister) (*ChildrenPlan, error) {
	plan := &ChildrenPlan{}
	names := map[Ref]bool{}
	for _, object := range c.wanted {
		child, wanted, err := c.complete(object)
		if err != nil {
			return nil, err
		}
		if names[child] {
			return nil, Terminal("children: %s is wanted twice", child)
		}
		names[child] = true
		if err := c.planWanted(lister, child, wanted, plan); err != nil {
			return nil, err
		}
	}
	for _, kind := range c.kinds {
		query := Query{Namespace: c.owner.Metadata.Namespace, Owner: Controller(c.owner.Metadata.UID)}
		for _, text := range lister.ListJSON(kind, query) {
			h, err := decode[header](kind, text)
			if err != nil {
				return nil, err
			}
			child := Ref{kind, h.Metadata.Namespace, h.Metadata.Name}
			if names[child] {
				continue
			}
			if err := prunePlan(lister, child, plan); err != nil {
				return nil, err
			}
			// A kind that is owned twice is pruned once.
			names[child] = true
		}
	}
	return plan, nil
}

// complete gives the name of a wanted object, and the object with its namespace filled in.
func (c *Children) complete(object any) (child Ref, wanted map[string]any, err error) {
	if text, ok := object.(string); ok {
		object = json.RawMessage(text)
	}
	tree, err := treeOf(object)
	if err != nil {
		return child, nil, Terminal("children: %w", err)
	}
	wanted, _ = tree.(map[string]any)
	metadata, _ := wanted["metadata"].(map[string]any)
	text := func(members map[string]any, name string) string {
		text, _ := members[name].(string)
		return text
	}
	child = Ref{
		Kind:      KindOf(text(wanted, "apiVersion"), text(wanted, "kind")),
		Namespace: text(metadata, "namespace"), Name: text(metadata, "name"),
	}
	owners := c.owner.Metadata.Namespace
	if child.Namespace == "" {
		child.Namespace = owners
	}
	switch {
	case child.Kind.Name == "" || child.Kind.Version == "":
		return child, nil, Terminal("children: a %T has no apiVersion or kind: set its TypeMeta", object)
	case child.Name == "":
		return child, nil, Terminal("children: a %s has no metadata.name", child.Kind)
	case !slices.Contains(c.kinds, child.Kind):
		return child, nil, Terminal("children: %s is of a kind that is not owned: call Own", child)
	case owners != "" && child.Namespace != owners:
		return child, nil, Terminal("children: %s is in another namespace than its owner", child)
	}
	if child.Namespace != "" {
		metadata["namespace"] = child.Namespace
	}
	return child, wanted, nil
}

func (c *Children) planWanted(lister Lister, child Ref, wanted map[string]any, plan *ChildrenPlan) error {
	hash, err := Hash(wanted)
	if err != nil {
		return err
	}
	apply := Apply(child.Kind, child.Namespace, child.Name, c.manager, true, c.applied(wanted, hash))
	text := lister.GetJSON(child.Kind, child.Namespace, child.Name)
	if text == nil {
		plan.Mutations = append(plan.Mutations, apply)
		return nil
	}
	existing, err := decode[header](child.Kind, text)
	if err != nil {
		return err
	}
	meta := &existing.Metadata
	controller := meta.controller()
	switch {
	case meta.DeletionTimestamp != nil:
		plan.Waiting = append(plan.Waiting, child)
		return nil
	case controller == nil:
		plan.Mutations = append(plan.Mutations, c.adopt(child, meta))
		return nil
	case controller.UID != c.owner.Metadata.UID:
		kind := KindOf(controller.APIVersion, controller.Kind)
		plan.Conflicts = append(plan.Conflicts, ChildConflict{child, kind, controller.Name})
		return nil
	}
	tree, err := parseTree(text)
	if err != nil {
		return Terminal("decode %s: %w", child, err)
	}
	if meta.Annotations[AppliedAnnotation] != hash || !covers(tree, wanted) {
		plan.Mutations = append(plan.Mutations, apply.WithUID(meta.UID))
	}
	return nil
}

// adopt adds the owner to the owner references of an object without a controller, as its controller.
func (c *Children) adopt(child Ref, existing *ObjectMeta) Mutation {
	owners := make([]OwnerReference, 0, len(existing.OwnerReferences)+1)
	for _, owner := range existing.OwnerReferences {
		if owner.UID != c.owner.Metadata.UID {
			owners = append(owners, owner)
		}
	}
	patch := Object{"metadata": Object{"ownerReferences": append(owners, c.owner.controllerRef())}}
	return Patch(child.Kind, child.Namespace, child.Name, MergePatch, patch).
		WithUID(existing.UID).WithResourceVersion(existing.ResourceVersion)
}

// applied is the object as it is sent. It leaves wanted as it is.
func (c *Children) applied(wanted map[string]any, hash string) map[string]any {
	metadata := copyOf(wanted["metadata"])
	metadata["ownerReferences"] = []OwnerReference{c.owner.controllerRef()}
	annotations := copyOf(metadata["annotations"])
	annotations[AppliedAnnotation] = hash
	metadata["annotations"] = annotations
	object := copyOf(wanted)
	object["metadata"] = metadata
	return object
}

func copyOf(tree any) map[string]any {
	copied := map[string]any{}
	members, _ := tree.(map[string]any)
	for name, value := range members {
		copied[name] = value
	}
	return copied
}

// prunePlan deletes a child, unless that has been done. It is read by name, because a list gives less than what a whole watch has.
func prunePlan(lister Lister, child Ref, plan *ChildrenPlan) error {
	text := lister.GetJSON(child.Kind, child.Namespace, child.Name)
	if text == nil {
		return nil
	}
	existing, err := decode[header](child.Kind, text)
	if err != nil {
		return err
	}
	if existing.Metadata.DeletionTimestamp == nil {
		plan.Mutations = append(plan.Mutations, Delete(child.Kind, child.Namespace, child.Name).
			WithUID(existing.Metadata.UID).WithPropagation(Background))
	}
	return nil
}

// covers says whether an object has all that is wanted of it: every member of a wanted object is there and covered, lists have the same
// length and cover item by item, scalars are equal. What is wanted to be null, "", 0, false, [] or {} may be missing.
//
// In objects of v1, apps/v1 and batch/v1, items that others add to a list of mergedLists count as covered: server-side apply leaves them
// there.
func covers(existing, wanted any) bool {
	members, _ := wanted.(map[string]any)
	version, _ := members["apiVersion"].(string)
	return coversAt("", existing, wanted, version == "v1" || version == "apps/v1" || version == "batch/v1")
}

// mergedLists are lists of Pods and Services, with members of which their items have one. Server-side apply keeps the items that others
// add to them.
var mergedLists = map[string][]string{
	"containers":     {"name"},
	"initContainers": {"name"},
	"volumes":        {"name"},
	"env":            {"name"},
	"volumeMounts":   {"mountPath"},
	"volumeDevices":  {"devicePath"},
	"ports":          {"containerPort", "targetPort"},
}

func isMerged(list string, items []any) bool {
	return slices.ContainsFunc(mergedLists[list], func(key string) bool {
		return !slices.ContainsFunc(items, func(item any) bool {
			members, _ := item.(map[string]any)
			_, ok := members[key]
			return !ok
		})
	})
}

func coversAt(name string, existing, wanted any, merges bool) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		members, ok := existing.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range wanted {
			if there := members[name]; there == nil {
				if !isZero(value) {
					return false
				}
			} else if !coversAt(name, there, value, merges) {
				return false
			}
		}
		return true
	case []any:
		items, ok := existing.([]any)
		if !ok {
			return false
		}
		others := merges && isMerged(name, items)
		if !others && len(items) != len(wanted) {
			return false
		}
		for _, item := range wanted {
			for others && len(items) > 0 && !coversAt("", items[0], item, merges) {
				items = items[1:]
			}
			if len(items) == 0 || !coversAt("", items[0], item, merges) {
				return false
			}
			items = items[1:]
		}
		return true
	default:
		return equalTrees(existing, wanted)
	}
}

func isZero(tree any) bool {
	switch value := tree.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	case json.Number:
		return equalNumbers(value, "0")
	case string:
		return value == ""
	case bool:
		return !value
	default:
		return value == nil
	}
}
