package aggregate

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/expression"
)

// family says what a value is. Values are in the order of their families.
type family uint8

const (
	null family = iota
	boolean
	number
	quantity
	duration
	instant
	text
	other
	families
)

// maxCell bounds a value of a row, in bytes as JSON.
const maxCell = 1024

// Value is a value of a row: what an expression gives, or what values come to together. The
// zero Value is null. Values are compared with compare only.
type Value struct {
	family family
	// format is that of a quantity.
	format byte
	// of is the number of all that is one: durations and times in nanoseconds.
	of amount
	// json is the text of texts, and of others the JSON.
	json string
}

// The formats of quantities.
const (
	decimalSI byte = iota
	binarySI
	decimalExponent
)

func count(n int64) Value { return Value{family: number, of: whole(n)} }

// valueOf is the value that an expression gives.
func valueOf(v ref.Val) (Value, error) {
	switch v := v.(type) {
	case types.Null:
		return Value{}, nil
	case *types.Err: // which an optional value can have
		return Value{}, v
	case *types.Optional:
		if !v.HasValue() {
			return Value{}, nil
		}
		return valueOf(v.GetValue())
	case types.Bool:
		n := int64(0)
		if v {
			n = 1
		}
		return Value{family: boolean, of: whole(n)}, nil
	case types.Int:
		return count(int64(v)), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return count(int64(v)), nil
		}
		d, _ := new(inf.Dec).SetString(strconv.FormatUint(uint64(v), 10))
		return Value{family: number, of: exact(d)}, nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return Value{}, fmt.Errorf("the expression gives %v, which is no number", f)
		}
		return Value{family: number, of: amountOf(float64(v))}, nil
	case types.Duration:
		return Value{family: duration, of: whole(int64(v.Duration))}, nil
	case types.Timestamp:
		ns := new(inf.Dec).Add(new(inf.Dec).Mul(inf.NewDec(v.Unix(), 0), inf.NewDec(int64(time.Second), 0)), inf.NewDec(int64(v.Nanosecond()), 0))
		return Value{family: instant, of: exact(ns)}, nil
	}
	if q, ok := v.Value().(*resource.Quantity); ok {
		return quantityOf(*q), nil
	}
	return jsonOf(v)
}

func quantityOf(q resource.Quantity) Value {
	v := Value{family: quantity}
	switch q.Format {
	case resource.BinarySI:
		v.format = binarySI
	case resource.DecimalExponent:
		v.format = decimalExponent
	}
	if n, ok := q.AsInt64(); ok {
		v.of = whole(n)
	} else {
		own := q.DeepCopy() // which AsDec changes
		v.of = exact(own.AsDec())
	}
	return v
}

// jsonOf is a value that is nothing to calculate with.
func jsonOf(v ref.Val) (Value, error) {
	room := 8 * maxCell // as it is counted, each value has some bytes more
	decoded, err := expression.JSON(v, &room)
	if err != nil {
		return Value{}, err
	}
	if s, ok := decoded.(string); ok {
		if len(s) > maxCell {
			return Value{}, errTooLong
		}
		return Value{family: text, json: strings.Clone(s)}, nil
	}
	encoded := expression.Encode(decoded)
	if len(encoded) > maxCell {
		return Value{}, errTooLong
	}
	return Value{family: other, json: string(encoded)}, nil
}

var errTooLong = fmt.Errorf("the expression gives more than %d bytes", maxCell)

// compare orders all values; 0 means that they are shown alike.
func (v Value) compare(o Value) int {
	return cmp.Or(cmp.Compare(v.family, o.family), v.of.compare(o.of), cmp.Compare(v.format, o.format), cmp.Compare(v.json, o.json))
}

// compareAll orders rows of values.
func compareAll(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].compare(b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// size is about how many bytes it has.
func (v Value) size() int { return 48 + len(v.json) + v.of.size() }

// key is a text that only values have that compare as equal.
func (v Value) key(b *bytes.Buffer) {
	b.WriteByte(byte(v.family))
	b.WriteByte(v.format)
	if v.family == text || v.family == other {
		b.WriteString(strconv.Itoa(len(v.json)))
		b.WriteByte(':')
		b.WriteString(v.json)
	} else {
		b.WriteString(v.of.text())
	}
	b.WriteByte(0)
}

// JSON is the value as rows have it.
func (v Value) JSON() []byte {
	switch v.family {
	case boolean:
		return strconv.AppendBool(nil, v.of.small != 0)
	case number:
		if v.of.big == nil {
			return strconv.AppendInt(nil, v.of.small, 10)
		}
		f, _ := v.of.rat().Float64()
		if math.IsInf(f, 0) {
			return []byte("null")
		}
		return expression.Encode(f)
	case quantity:
		return expression.Encode(v.quantity())
	case duration:
		return expression.Encode(v.duration())
	case instant:
		return expression.Encode(v.time().Format(time.RFC3339Nano))
	case text:
		return expression.Encode(v.json)
	case other:
		return json.RawMessage(v.json)
	}
	return []byte("null")
}

// nano is how many digits behind the point a quantity can have.
const nano = 9

func (v Value) quantity() string {
	format := resource.DecimalSI
	switch v.format {
	case binarySI:
		format = resource.BinarySI
	case decimalExponent:
		format = resource.DecimalExponent
	}
	d := new(inf.Dec).Set(v.of.dec())
	if d.Scale() > nano {
		d.Round(d, nano, inf.RoundHalfUp)
	}
	return resource.NewDecimalQuantity(*d, format).String()
}

// duration is in hours, minutes and seconds; in seconds alone if there are hundreds of years.
func (v Value) duration() string {
	if v.of.big == nil {
		return time.Duration(v.of.small).String()
	}
	return v.of.over(int64(time.Second), nano).text() + "s"
}

func (v Value) time() time.Time {
	if v.of.big == nil {
		return time.Unix(0, v.of.small).UTC()
	}
	seconds, rest := new(inf.Dec).QuoRound(v.of.big, inf.NewDec(int64(time.Second), 0), 0, inf.RoundFloor), new(inf.Dec)
	rest.Sub(v.of.big, new(inf.Dec).Mul(seconds, inf.NewDec(int64(time.Second), 0)))
	return time.Unix(seconds.UnscaledBig().Int64(), rest.UnscaledBig().Int64()).UTC()
}

// columnType is the type of a column with some values.
func columnType(all [families]bool, fractions bool) v1alpha1.SummaryColumnType {
	all[null] = false
	if all[quantity] {
		all[number] = false // which becomes one
	}
	found := null
	for f, is := range all {
		switch {
		case !is:
		case found != null:
			return "any"
		default:
			found = family(f)
		}
	}
	switch found {
	case boolean:
		return "boolean"
	case number:
		if fractions {
			return "number"
		}
		return "integer"
	case quantity:
		return "quantity"
	case duration:
		return "duration"
	case instant:
		return "time"
	case text:
		return "string"
	}
	return "any"
}
