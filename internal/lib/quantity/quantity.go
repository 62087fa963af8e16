// Package quantity parses untrusted quantities. Arithmetic and rounding expand all digits of a
// quantity, so a text of a few bytes, such as 1e2000000000, could use all memory and take hours. A
// user that can write such a text must not be able to stop a hub or an agent.
package quantity

import (
	"errors"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// maxLength limits the text of a quantity, in bytes, and maxExponent its exponent. Resources of
// real clusters are far below both.
const maxLength, maxExponent = 128, 100

var errHuge = errors.New("a quantity has more digits than there is use for")

// Parse is resource.ParseQuantity for texts that are not IsHuge.
func Parse(text string) (resource.Quantity, error) {
	if IsHuge(text) {
		return resource.Quantity{}, errHuge
	}
	return resource.ParseQuantity(text)
}

// IsHuge reports whether a text may be a quantity with more digits than any use needs.
func IsHuge(text string) bool { return len(text) > maxLength || hasHugeExponent(text) }

func hasHugeExponent(text string) bool {
	i := strings.LastIndexAny(text, "eE")
	if i < 0 || i == len(text)-1 || strings.Trim(text[i+1:], "+-0123456789") != "" { // such as 1Ei
		return false
	}
	n, err := strconv.Atoi(text[i+1:])
	return err != nil || n > maxExponent || n < -maxExponent
}

// Check fails if any string or number in a JSON value would be a huge quantity when decoded as a
// quantity. Decoding such a value by its type would not end. It reads the value once, regardless of
// nesting.
func Check(value []byte) (err error) {
	jsonscan.Scalars(value, func(scalar []byte) bool {
		if isHugeScalar(scalar) {
			err = errHuge
		}
		return err == nil
	})
	return err
}

// isHugeScalar reports whether a string or number, as written in JSON, has a huge exponent.
func isHugeScalar(scalar []byte) bool {
	if scalar[0] != '"' {
		return hasHugeExponent(string(scalar))
	}
	text := strings.TrimSpace(gjson.ParseBytes(scalar).Str)
	return strings.Trim(text, "+-.0123456789eE") == "" && hasHugeExponent(text)
}
