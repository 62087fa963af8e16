package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// adapter makes CEL's values of what Decode gives. Maps have an order, so that an expression
// gives the same each time.
type adapter struct{ types.Adapter }

// NativeToValue implements types.Adapter.
func (a adapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return ordered{types.NewStringInterfaceMap(a, v)}
	case map[ref.Val]ref.Val: // a literal
		return ordered{types.NewRefValMap(a, v)}
	case []any:
		return types.NewDynamicList(a, v)
	case []ref.Val:
		return types.NewRefValList(a, v)
	case json.Number:
		return numberOf(v)
	case *resource.Quantity: // these come back where the library unpacks a value, as optMap does
		return apiservercel.Quantity{Quantity: v}
	case *url.URL:
		return apiservercel.URL{URL: v}
	case netip.Addr:
		return apiservercel.IP{Addr: v}
	case netip.Prefix:
		return apiservercel.CIDR{Prefix: v}
	case semver.Version:
		return apiservercel.Semver{Version: v}
	}
	return a.Adapter.NativeToValue(v)
}

func numberOf(n json.Number) ref.Val {
	if i, err := n.Int64(); err == nil {
		return types.Int(i)
	}
	f, err := n.Float64()
	if err != nil {
		return types.NewErr("%s is not a number that can be computed with", n)
	}
	return types.Double(f)
}

// ordered is a map whose keys come in order.
type ordered struct{ traits.Mapper }

// Iterator gives the keys in order.
func (m ordered) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// compareKeys orders keys of one type as CEL does, others by the names of their types.
func compareKeys(a, b ref.Val) int {
	if c, ok := a.(traits.Comparer); ok && a.Type() == b.Type() {
		if order, ok := c.Compare(b).(types.Int); ok {
			return int(order)
		}
	}
	switch left, right := a.Type().TypeName(), b.Type().TypeName(); {
	case left < right:
		return -1
	case left > right:
		return 1
	}
	return 0
}

// ErrTooMuch is returned when a value exceeds the permitted size.
var ErrTooMuch = errors.New("the value is too large")

// bytesOfValue is what JSON takes from room for each value, besides its texts.
const bytesOfValue = 8

// JSON is a CEL value as Decode gives JSON. It takes what that takes as JSON from room.
func JSON(v ref.Val, room *int) (any, error) {
	if *room -= bytesOfValue; *room < 0 {
		return nil, ErrTooMuch
	}
	switch v := v.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return json.Number(strconv.FormatInt(int64(v), 10)), nil
	case types.Uint:
		return json.Number(strconv.FormatUint(uint64(v), 10)), nil
	case types.Double:
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("the expression gives %v, which is no number of JSON", f)
		}
		return json.Number(Encode(float64(v))), nil
	case types.Null:
		return nil, nil
	case types.String, types.Timestamp, types.Duration:
		return textOf(v, room)
	case *types.Optional:
		if !v.HasValue() {
			return nil, errors.New("the expression gives an optional value that is not there")
		}
		return JSON(v.GetValue(), room)
	case *types.Type:
		return nil, errors.New("the expression gives a type, which is not JSON")
	case traits.Lister:
		return listOf(v, room)
	case traits.Mapper:
		return objectOf(v, room)
	}
	return textOf(v, room)
}

// textOf is the text of a value that is a string in JSON.
func textOf(v ref.Val, room *int) (any, error) {
	var text string
	switch native := v.Value().(type) {
	case string:
		text = native
	case time.Time:
		text = native.UTC().Format(time.RFC3339Nano)
	case time.Duration:
		text = native.String()
	case *resource.Quantity:
		text = native.String()
	case *url.URL:
		text = native.String()
	case netip.Addr:
		text = native.String()
	case netip.Prefix:
		text = native.String()
	case semver.Version:
		text = native.String()
	default:
		return nil, fmt.Errorf("the expression gives a value of type %s, which is not JSON", v.Type().TypeName())
	}
	if *room -= len(text); *room < 0 {
		return nil, ErrTooMuch
	}
	return text, nil
}

func listOf(l traits.Lister, room *int) (any, error) {
	if lengthOf(l) > *room/bytesOfValue {
		return nil, ErrTooMuch
	}
	all := []any{}
	for it := l.Iterator(); it.HasNext() == types.True; {
		one, err := JSON(it.Next(), room)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func objectOf(m traits.Mapper, room *int) (any, error) {
	if size, ok := m.Size().(types.Int); !ok || int64(size) > int64(*room/bytesOfValue) { // its keys would be brought in order
		return nil, ErrTooMuch
	}
	all := map[string]any{}
	for it := m.Iterator(); it.HasNext() == types.True; {
		k := it.Next()
		name, ok := k.(types.String)
		if !ok {
			return nil, fmt.Errorf("the expression gives an object with a name of type %s, not a string", k.Type().TypeName())
		}
		if *room -= len(name); *room < 0 {
			return nil, ErrTooMuch
		}
		one, err := JSON(m.Get(k), room)
		if err != nil {
			return nil, err
		}
		all[string(name)] = one
	}
	return all, nil
}
