package pintle

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// maxInteger is the largest integer that every language has: 2^53 - 1.
const maxInteger = 1<<53 - 1

// Hash is a hash of a value that is the same in every language: FNV-1a with 64 bits over its canonical JSON, as 16 hexadecimal
// digits. Not cryptographic. Controllers note it in annotations, to see by it that something has changed.
//
// In canonical JSON members are sorted by the bytes of their names, those that are null are left out, there is no white space,
// strings have no more escapes than JSON requires, and integers are plain.
//
// The error is a [TerminalError]: the value has a number that is no integer, or one beyond 2^53 - 1, or cannot be written as JSON.
func Hash(value any) (string, error) {
	text, err := canonical(value)
	if err != nil {
		return "", err
	}
	hash := fnv.New64a()
	hash.Write(text)
	return fmt.Sprintf("%016x", hash.Sum64()), nil
}

func canonical(value any) ([]byte, error) {
	tree, err := treeOf(value)
	if err != nil {
		return nil, Terminal("hash: %w", err)
	}
	return appendCanonical(nil, tree)
}

func appendCanonical(text []byte, tree any) (_ []byte, err error) {
	switch value := tree.(type) {
	case map[string]any:
		text = append(text, '{')
		first := true
		for _, name := range slices.Sorted(maps.Keys(value)) {
			if value[name] == nil {
				continue
			}
			if !first {
				text = append(text, ',')
			}
			first = false
			text = append(appendString(text, name), ':')
			if text, err = appendCanonical(text, value[name]); err != nil {
				return nil, err
			}
		}
		return append(text, '}'), nil
	case []any:
		text = append(text, '[')
		for i, item := range value {
			if i > 0 {
				text = append(text, ',')
			}
			if text, err = appendCanonical(text, item); err != nil {
				return nil, err
			}
		}
		return append(text, ']'), nil
	case string:
		return appendString(text, value), nil
	case json.Number:
		integer, err := integerOf(value)
		return strconv.AppendInt(text, integer, 10), err
	case bool:
		return strconv.AppendBool(text, value), nil
	default:
		return append(text, "null"...), nil
	}
}

// integerOf takes 2.0 for an integer: not every language distinguishes it from 2.
func integerOf(number json.Number) (int64, error) {
	integer, err := number.Int64()
	if err != nil {
		float, floatErr := number.Float64()
		integer, err = int64(float), floatErr
		if floatErr == nil && (float < -maxInteger || float > maxInteger || float != float64(int64(float))) {
			integer = maxInteger + 1
		}
	}
	if err != nil || integer < -maxInteger || integer > maxInteger {
		return 0, Terminal("hash: a number is not an integer between -(2^53 - 1) and 2^53 - 1")
	}
	return integer, nil
}

func appendString(text []byte, s string) []byte {
	const digits = "0123456789abcdef"
	text = append(text, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			text = append(text, '\\', byte(r))
		case r >= 0x20:
			text = utf8.AppendRune(text, r)
		case r == '\b':
			text = append(text, `\b`...)
		case r == '\f':
			text = append(text, `\f`...)
		case r == '\n':
			text = append(text, `\n`...)
		case r == '\r':
			text = append(text, `\r`...)
		case r == '\t':
			text = append(text, `\t`...)
		default:
			text = append(text, '\\', 'u', '0', '0', digits[r>>4], digits[r&15])
		}
	}
	return append(text, '"')
}
