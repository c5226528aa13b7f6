package pintle

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"
)

// Condition is a condition of a status, in the JSON form of metav1.Condition.
type Condition struct {
	Type string `json:"type"`
	// Status is "True", "False" or "Unknown".
	Status             string    `json:"status"`
	ObservedGeneration int64     `json:"observedGeneration,omitempty"`
	LastTransitionTime time.Time `json:"lastTransitionTime,omitzero"`
	Reason             string    `json:"reason"`
	Message            string    `json:"message"`
}

// SetCondition gives the conditions with this one in place of that of the same type, or at the end. Its LastTransitionTime becomes now
// in whole seconds, or stays what it was if the status is the same; what condition says of it does not matter.
//
// C is [Condition] or any struct like it, such as metav1.Condition; it panics if C has no fields Type, Status and LastTransitionTime.
func SetCondition[C any](conditions []C, condition C, now time.Time) []C {
	conditions = slices.Clone(conditions)
	setTransition(&condition, now.UTC().Truncate(time.Second))
	i := indexOfCondition(conditions, textOfField(&condition, "Type"))
	if i < 0 {
		return append(conditions, condition)
	}
	current := &conditions[i]
	if textOfField(current, "Status") == textOfField(&condition, "Status") {
		if before := fieldOf(current, "LastTransitionTime"); !before.IsZero() {
			fieldOf(&condition, "LastTransitionTime").Set(before)
		}
	}
	*current = condition
	return conditions
}

// FindCondition is the condition of this type, or nil. C as for [SetCondition].
func FindCondition[C any](conditions []C, conditionType string) *C {
	if i := indexOfCondition(conditions, conditionType); i >= 0 {
		return &conditions[i]
	}
	return nil
}

// IsTrue says whether the condition of this type is there and True. C as for [SetCondition].
func IsTrue[C any](conditions []C, conditionType string) bool {
	condition := FindCondition(conditions, conditionType)
	return condition != nil && textOfField(condition, "Status") == "True"
}

func indexOfCondition[C any](conditions []C, conditionType string) int {
	for i := range conditions {
		if textOfField(&conditions[i], "Type") == conditionType {
			return i
		}
	}
	return -1
}

func textOfField[C any](condition *C, name string) string {
	if condition, ok := any(condition).(*Condition); ok {
		if name == "Type" {
			return condition.Type
		}
		return condition.Status
	}
	field := fieldOf(condition, name)
	if field.Kind() != reflect.String {
		panic(fmt.Sprintf("pintle: %T.%s is no string", *condition, name))
	}
	return field.String()
}

func fieldOf[C any](condition *C, name string) reflect.Value {
	value := reflect.ValueOf(condition).Elem()
	if value.Kind() == reflect.Struct {
		if field := value.FieldByName(name); field.IsValid() {
			return field
		}
	}
	panic(fmt.Sprintf("pintle: %T is no condition: it has no field %s", *condition, name))
}

// setTransition goes through JSON, which every type of time has in common.
func setTransition[C any](condition *C, now time.Time) {
	field := fieldOf(condition, "LastTransitionTime")
	text, err := json.Marshal(now)
	if err == nil {
		err = json.Unmarshal(text, field.Addr().Interface())
	}
	if err != nil {
		panic(fmt.Sprintf("pintle: %T.LastTransitionTime is no time: %v", *condition, err))
	}
}
