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

// family is the type of a value. Values are ordered by family first.
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

// maxCell bounds the size of a value as JSON, in bytes.
const maxCell = 1024

// Value is a value of a row: the result of an expression or a combination. The zero Value is null.
// Values must only be compared by compare.
type Value struct {
	family family
	// format is the format of a quantity.
	format byte
	// amount is the number of numeric families: nanoseconds for durations and times.
	amount amount
	// json is the text of texts, and the JSON of other values.
	json string
}

// Formats of quantities.
const (
	decimalSI byte = iota
	binarySI
	decimalExponent
)

func count(n int64) Value { return Value{family: number, amount: whole(n)} }

// valueOf returns the value of a result of CEL.
func valueOf(v ref.Val) (Value, error) {
	switch v := v.(type) {
	case types.Null:
		return Value{}, nil
	case *types.Err: // an optional value can contain it
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
		return Value{family: boolean, amount: whole(n)}, nil
	case types.Int:
		return count(int64(v)), nil
	case types.Uint:
		if v <= math.MaxInt64 {
			return count(int64(v)), nil
		}
		d, _ := new(inf.Dec).SetString(strconv.FormatUint(uint64(v), 10))
		return Value{family: number, amount: exact(d)}, nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return Value{}, fmt.Errorf("the expression gives %v, which is no number", f)
		}
		return Value{family: number, amount: amountOf(float64(v))}, nil
	case types.Duration:
		return Value{family: duration, amount: whole(int64(v.Duration))}, nil
	case types.Timestamp:
		ns := new(inf.Dec).Add(new(inf.Dec).Mul(inf.NewDec(v.Unix(), 0), inf.NewDec(int64(time.Second), 0)), inf.NewDec(int64(v.Nanosecond()), 0))
		return Value{family: instant, amount: exact(ns)}, nil
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
		v.amount = whole(n)
	} else {
		own := q.DeepCopy() // AsDec changes it
		v.amount = exact(own.AsDec())
	}
	return v
}

// maxConverted bounds the size of a value that is converted to JSON. In this count, each value has some bytes more.
const maxConverted = 8 * maxCell

// costOfValue returns what valueOf costs, in CEL's units.
func costOfValue(v ref.Val) uint64 { return expression.ConversionCost(v, maxConverted) }

// jsonOf returns a value without arithmetic.
func jsonOf(v ref.Val) (Value, error) {
	room := maxConverted
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

// compare orders all values; equal values are shown alike.
func (v Value) compare(o Value) int {
	return cmp.Or(cmp.Compare(v.family, o.family), v.amount.compare(o.amount), cmp.Compare(v.format, o.format), cmp.Compare(v.json, o.json))
}

// compareAll orders lists of values.
func compareAll(a, b []Value) int {
	for i := range min(len(a), len(b)) {
		if c := a[i].compare(b[i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// size returns the approximate size in bytes.
func (v Value) size() int { return 48 + len(v.json) + v.amount.size() }

// key writes a text that identifies the value among unequal ones.
func (v Value) key(b *bytes.Buffer) {
	b.WriteByte(byte(v.family))
	b.WriteByte(v.format)
	if v.family == text || v.family == other {
		b.WriteString(strconv.Itoa(len(v.json)))
		b.WriteByte(':')
		b.WriteString(v.json)
	} else {
		b.WriteString(v.amount.text())
	}
	b.WriteByte(0)
}

// JSON returns the value as in rows.
func (v Value) JSON() []byte {
	switch v.family {
	case boolean:
		return strconv.AppendBool(nil, v.amount.small != 0)
	case number:
		if v.amount.big == nil {
			return strconv.AppendInt(nil, v.amount.small, 10)
		}
		f, _ := v.amount.rat().Float64()
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

// nano is the number of decimal places of a quantity.
const nano = 9

func (v Value) quantity() string {
	format := resource.DecimalSI
	switch v.format {
	case binarySI:
		format = resource.BinarySI
	case decimalExponent:
		format = resource.DecimalExponent
	}
	d := new(inf.Dec).Set(v.amount.dec())
	if d.Scale() > nano {
		d.Round(d, nano, inf.RoundHalfUp)
	}
	return resource.NewDecimalQuantity(*d, format).String()
}

// duration returns hours, minutes and seconds; seconds alone for hundreds of years.
func (v Value) duration() string {
	if v.amount.big == nil {
		return time.Duration(v.amount.small).String()
	}
	return v.amount.over(int64(time.Second), nano).text() + "s"
}

func (v Value) time() time.Time {
	if v.amount.big == nil {
		return time.Unix(0, v.amount.small).UTC()
	}
	seconds, rest := new(inf.Dec).QuoRound(v.amount.big, inf.NewDec(int64(time.Second), 0), 0, inf.RoundFloor), new(inf.Dec)
	rest.Sub(v.amount.big, new(inf.Dec).Mul(seconds, inf.NewDec(int64(time.Second), 0)))
	return time.Unix(seconds.UnscaledBig().Int64(), rest.UnscaledBig().Int64()).UTC()
}

// columnType returns the type of a column with values of some families.
func columnType(all [families]bool, fractions bool) v1alpha1.SummaryColumnType {
	all[null] = false
	if all[quantity] {
		all[number] = false // numbers become quantities
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
