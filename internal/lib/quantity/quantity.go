// Package quantity reads quantities that nobody has checked. Arithmetic and rounding spell
// out all digits of a quantity, so a text of a few bytes, as 1e2000000000, could take all
// memory and hours: whoever may write such a text must not stop a hub or an agent by it.
package quantity

import (
	"errors"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// maxLength bounds the text of a quantity, in bytes, and maxExponent its exponent: no
// resource of a cluster comes near that.
const maxLength, maxExponent = 128, 100

var errHuge = errors.New("a quantity has more digits than there is use for")

// Parse is resource.ParseQuantity of a text that is not IsHuge.
func Parse(text string) (resource.Quantity, error) {
	if IsHuge(text) {
		return resource.Quantity{}, errHuge
	}
	return resource.ParseQuantity(text)
}

// IsHuge says of a text that it may be a quantity with more digits than there is use for.
func IsHuge(text string) bool { return len(text) > maxLength || hasHugeExponent(text) }

func hasHugeExponent(text string) bool {
	i := strings.LastIndexAny(text, "eE")
	if i < 0 || i == len(text)-1 || strings.Trim(text[i+1:], "+-0123456789") != "" { // as in 1Ei
		return false
	}
	n, err := strconv.Atoi(text[i+1:])
	return err != nil || n > maxExponent || n < -maxExponent
}

// Check fails if any text or number of a JSON value would be a huge quantity, if the field
// that it is in is one: what decodes such a value by its type would not end. It reads the value
// once, however deeply that is nested.
func Check(value []byte) (err error) {
	jsonscan.Scalars(value, func(scalar []byte) bool {
		if isHugeScalar(scalar) {
			err = errHuge
		}
		return err == nil
	})
	return err
}

// isHugeScalar reports whether a string or number, as it is written in JSON, has a huge exponent.
func isHugeScalar(scalar []byte) bool {
	if scalar[0] != '"' {
		return hasHugeExponent(string(scalar))
	}
	text := strings.TrimSpace(gjson.ParseBytes(scalar).Str)
	return strings.Trim(text, "+-.0123456789eE") == "" && hasHugeExponent(text)
}
