package pintletest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	pintle "pintle.dev/sdk"
)

// subresource is one that a live read finds.
type subresource struct {
	Kind        pintle.Kind `json:"kind"`
	Namespace   string      `json:"namespace"`
	Name        string      `json:"name"`
	Subresource string      `json:"subresource"`
	Answer      any         `json:"answer"`
}

// review is a verdict of the API server.
type review struct {
	Kind      pintle.Kind `json:"kind"`
	Namespace string      `json:"namespace"`
	// Spec has fields of the reviews that it is about; all if absent.
	Spec   any `json:"spec"`
	Status any `json:"status"`
}

// signature is one by a key or an authority.
type signature struct {
	By string `json:"by"`
	// Claims are those of the tokens that it is about; all if absent.
	Claims any              `json:"claims"`
	Answer string           `json:"answer"`
	Error  *pintle.APIError `json:"error"`
}

// call is the answer of an endpoint.
type call struct {
	Endpoint  string `json:"endpoint"`
	Operation string `json:"operation"`
	// Body has fields of the bodies that it is about; all if absent.
	Body   any              `json:"body"`
	Answer any              `json:"answer"`
	Error  *pintle.APIError `json:"error"`
}

// contains says whether a value has all that another one has; nil asks for nothing.
func contains(value, wanted any) bool {
	if wanted == nil {
		return true
	}
	members, isObject := value.(map[string]any)
	if of, ok := wanted.(map[string]any); ok && isObject {
		for name, inner := range of {
			member, there := members[name]
			if !there || !contains(member, inner) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(value, wanted)
}

// isAsked says whether a need was asked for in an earlier round.
func (l *Lister) isAsked(need pintle.Need) bool {
	return slices.ContainsFunc(l.asked, func(asked pintle.Need) bool { return reflect.DeepEqual(asked, need) })
}

// Answer implements [pintle.Lister].
func (l *Lister) Answer(need pintle.Need) *pintle.Answer {
	if !l.isAsked(need) {
		return nil
	}
	switch need.Type {
	case pintle.LiveObject:
		return l.answerObject(need)
	case pintle.LiveList:
		return l.answerList(need)
	case pintle.RawPath:
		if body, there := l.input.Raw[need.Path]; there {
			return found(body)
		}
		return notFound(need.Path)
	case pintle.Discovery:
		l.mustDiscover()
		failed := l.input.Discovery.Failed
		if failed == nil {
			failed = []string{}
		}
		return foundOr(l.input.Discovery.Error, textOf(failed))
	case pintle.LiveReview:
		return l.answerReview(need)
	case pintle.SignedJWT:
		return l.answerSignature(need.Key, mustParse(json.RawMessage(need.Body)))
	case pintle.SignedCertificate:
		return l.answerSignature(need.Certificate.Authority, nil)
	case pintle.EndpointCall:
		return l.answerCall(need)
	}
	panic(fault(fmt.Sprintf("there is no need of type %q", need.Type)))
}

func (l *Lister) answerObject(need pintle.Need) *pintle.Answer {
	ref := pintle.Ref{Kind: need.Kind, Namespace: need.Namespace, Name: need.Name}
	if need.Subresource != "" {
		for _, one := range l.input.Subresources {
			if (pintle.Ref{Kind: one.Kind, Namespace: one.Namespace, Name: one.Name}) == ref && one.Subresource == need.Subresource {
				return found(one.Answer)
			}
		}
		return notFound(shownNeedTarget(need) + "; a case has it in `subresources`")
	}
	for _, object := range l.live {
		if object.ref == ref {
			return found(object.tree)
		}
	}
	return notFound(ref.String())
}

func (l *Lister) answerList(need pintle.Need) *pintle.Answer {
	selector, err := labels.Parse(need.LabelSelector)
	if err != nil {
		return badRequest(err)
	}
	fieldSelector, err := fields.ParseSelector(need.FieldSelector)
	if err != nil {
		return badRequest(err)
	}
	items := []any{}
	for _, object := range l.live {
		if len(items) == need.Limit {
			break
		}
		if object.ref.Kind != need.Kind || need.Namespace != "" && need.Namespace != object.ref.Namespace ||
			!selector.Matches(labels.Set(object.meta.Labels)) || !fieldSelector.Matches(fieldsOf{object.tree}) {
			continue
		}
		switch need.Detail {
		case pintle.DetailMetadata:
			items = append(items, project(object.tree, [][]string{{"apiVersion"}, {"kind"}, {"metadata"}}))
		case pintle.DetailProjection:
			items = append(items, l.text(object, false))
		default:
			items = append(items, object.tree)
		}
	}
	return found(items)
}

// fieldsOf is an object as a field selector sees it. A field that is not there is empty, as for the API server.
type fieldsOf struct{ tree any }

func (f fieldsOf) Has(path string) bool { return f.Get(path) != "" }

func (f fieldsOf) Get(path string) string {
	value := f.tree
	for name := range strings.SplitSeq(path, ".") {
		members, _ := value.(map[string]any)
		value = members[name]
	}
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	default:
		return string(textOf(value))
	}
}

func (l *Lister) answerReview(need pintle.Need) *pintle.Answer {
	review, isObject := mustParse(json.RawMessage(need.Body)).(map[string]any)
	if !isObject {
		return badRequest(fmt.Errorf("a review is an object, not %s", need.Body))
	}
	for _, one := range l.input.Reviews {
		if one.Kind == need.Kind && one.Namespace == need.Namespace && contains(review["spec"], one.Spec) {
			review["apiVersion"], review["kind"], review["status"] = need.Kind.APIVersion(), need.Kind.Name, one.Status
			return found(review)
		}
	}
	return notFound(fmt.Sprintf("a verdict on %s %s; a case has it in `reviews`", need.Kind, textOf(review["spec"])))
}

func (l *Lister) answerSignature(by string, claims any) *pintle.Answer {
	for _, one := range l.input.Signatures {
		if one.By == by && contains(claims, one.Claims) {
			return foundOr(one.Error, json.RawMessage(one.Answer))
		}
	}
	return notFound(fmt.Sprintf("a signature by %s; a case has it in `signatures`", by))
}

func (l *Lister) answerCall(need pintle.Need) *pintle.Answer {
	body := mustParse(json.RawMessage(need.Body))
	for _, one := range l.input.Calls {
		if one.Endpoint == need.Endpoint && one.Operation == need.Operation && contains(body, one.Body) {
			return foundOr(one.Error, textOf(one.Answer))
		}
	}
	return notFound(fmt.Sprintf("an answer to %s/%s %s; a case has it in `calls`", need.Endpoint, need.Operation, need.Body))
}

func found(body any) *pintle.Answer { return &pintle.Answer{Body: textOf(body)} }

func foundOr(refusal *pintle.APIError, body json.RawMessage) *pintle.Answer {
	if refusal != nil {
		return &pintle.Answer{Refusal: refusal}
	}
	return &pintle.Answer{Body: body}
}

func notFound(what string) *pintle.Answer {
	return &pintle.Answer{Refusal: &pintle.APIError{Code: 404, Reason: "NotFound", Message: what + " not found"}}
}

func badRequest(err error) *pintle.Answer {
	return &pintle.Answer{Refusal: &pintle.APIError{Code: 400, Reason: "BadRequest", Message: err.Error()}}
}
