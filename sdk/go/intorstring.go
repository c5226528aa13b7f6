package pintle

import (
	"encoding/json"
	"fmt"
)

// IntOrString is a number or a text, as a schema with x-kubernetes-int-or-string allows: the port 8080 or "http". The zero value is
// the number 0. k8s.io/apimachinery has a type of this name, too, with 32 bits.
type IntOrString struct {
	// IsString says which of the two it is.
	IsString bool
	Int      int64
	String   string
}

// FromInt is a number.
func FromInt(number int64) IntOrString { return IntOrString{Int: number} }

// FromString is a text.
func FromString(text string) IntOrString { return IntOrString{IsString: true, String: text} }

// MarshalJSON writes the number or the text.
func (v IntOrString) MarshalJSON() ([]byte, error) {
	if v.IsString {
		return json.Marshal(v.String)
	}
	return json.Marshal(v.Int)
}

// UnmarshalJSON reads a number or a text.
func (v *IntOrString) UnmarshalJSON(text []byte) error {
	*v = IntOrString{}
	if len(text) > 0 && text[0] == '"' {
		v.IsString = true
		return json.Unmarshal(text, &v.String)
	}
	if err := json.Unmarshal(text, &v.Int); err != nil {
		return fmt.Errorf("neither an integer nor a text: %s", text)
	}
	return nil
}
