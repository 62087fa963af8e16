package downsync

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

// TestCanonicalIsWhatGoWouldEncode compares the canonical form with that of
// Go's encoder, which sorts and escapes in the same way.
func TestCanonicalIsWhatGoWouldEncode(t *testing.T) {
	leaf := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64), func(f float64) any { return f }),
		rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Just[any](nil),
	)
	value := func(inner *rapid.Generator[any]) *rapid.Generator[any] {
		return rapid.OneOf(inner,
			rapid.Map(rapid.SliceOfN(inner, 0, 4), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 20), func(m map[string]any) any { return m }))
	}
	root := rapid.MapOfN(rapid.String(), value(value(leaf)), 0, 5)
	seeds.Check(t, func(t *rapid.T) {
		indent := rapid.SampledFrom([]string{"", " ", "\t"}).Draw(t, "indent")
		data, err := json.MarshalIndent(root.Draw(t, "object"), "", indent)
		if err != nil {
			t.Fatal(err)
		}
		var none *Filter
		got, want := none.append(nil, data), reencode(t, data)
		if string(got) != string(want) {
			t.Fatalf("%s becomes\n%s\nwant\n%s", data, got, want)
		}
	})
}

// reencode makes canonical JSON the plain way, through Go maps.
func reencode(t *rapid.T, data []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
