package wire

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

// TestAppendRangeDifference: the line of a RangeDifference equals the output of an Encoder, byte by byte except for escapes, and both
// decode to the same strings.
func TestAppendRangeDifference(t *testing.T) {
	sum := func(t *rapid.T) Sum {
		if rapid.Bool().Draw(t, "empty") {
			return Sum{}
		}
		return SumOf(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "of"))
	}
	plain := rapid.StringMatching(`[a-z0-9./-]{0,20}`)
	for name, text := range map[string]*rapid.Generator[string]{
		"Names": plain,
		"Any": rapid.OneOf(plain, rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{`"`, `\`, "<&>", "\u2028", "\n", "\x7f", "\xff"})),
	} {
		t.Run(name, func(t *testing.T) {
			seeds.Check(t, func(t *rapid.T) {
				p := RangeDifference{From: text.Draw(t, "from"), To: text.Draw(t, "to")}
				for range rapid.IntRange(0, 3).Draw(t, "spans") {
					p.Split = append(p.Split, Span{From: text.Draw(t, "from"), To: text.Draw(t, "to"), Sum: sum(t), Count: rapid.Int().Draw(t, "count")})
				}
				for range rapid.IntRange(0, 3).Draw(t, "leaves") {
					p.Leaves = append(p.Leaves, Leaf{Key: text.Draw(t, "key"), Sum: sum(t)})
				}
				written, encoded := bytes.NewBuffer(AppendRangeDifference(nil, &p)), &bytes.Buffer{}
				if err := NewEncoder(encoded).Encode(Frame{RangeDifference: &p}); err != nil {
					t.Fatal(err)
				}
				if line := written.String(); strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
					t.Fatalf("it is not one line: %q", line)
				}
				if name == "Names" && written.String() != encoded.String() {
					t.Fatalf("written: %s\nencoded: %s", written, encoded)
				}
				var got, want Frame
				for from, to := range map[*bytes.Buffer]*Frame{written: &got, encoded: &want} {
					if err := NewDecoder(from).Decode(to); err != nil {
						t.Fatal(err)
					}
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%+v, want %+v", got.RangeDifference, want.RangeDifference)
				}
			})
		})
	}
}

// BenchmarkRangeDifference measures the line of a RangeDifference with the maximum number of leaves.
func BenchmarkRangeDifference(b *testing.B) {
	var p RangeDifference
	for i := range splitAbove {
		k := fmt.Sprintf("some-space/core/configmaps/some-namespace/an-object-%d", i)
		p.Leaves = append(p.Leaves, Leaf{Key: k, Sum: SumOf([]byte(k))})
	}
	var to bytes.Buffer
	var line []byte
	for name, write := range map[string]func() error{
		"appended": func() error { line = AppendRangeDifference(line[:0], &p); return nil },
		"encoded":  func() error { return NewEncoder(&to).Encode(Frame{RangeDifference: &p}) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				to.Reset()
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
