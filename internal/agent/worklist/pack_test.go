package worklist

import (
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/test/support/seeds"
)

// TestPacked shows that what is packed is the same when it is unpacked, and that what is the same
// is packed alike.
func TestPacked(t *testing.T) {
	uid := rapid.OneOf(
		rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`),
		rapid.StringMatching(`[0-9A-Fg-]{36}`),
		rapid.SampledFrom([]string{"", "u", "00000000-0000-0000-0000-000000000000", "0123456789-abcdef-0123456789-abcdef-"}),
	)
	seeds.Check(t, func(t *rapid.T) {
		o := decide.Observed{
			Existence: decide.Existence(rapid.IntRange(0, int(decide.Foreign)).Draw(t, "presence")), UID: uid.Draw(t, "uid"),
			Revision: rapid.Uint64().Draw(t, "revision"), Fields: ownership.FieldsHash(rapid.Uint64().Draw(t, "fields")),
			Log:     ownership.NewPair(rapid.SampledFrom([]string{"", "m"}).Draw(t, "marker"), rapid.Int64().Draw(t, "place")),
			Account: rapid.SampledFrom([]string{"", "n/a"}).Draw(t, "account"),
		}
		each(&o, func(_ flags, is *bool) { *is = rapid.Bool().Draw(t, "flag") })
		p := pack(o)
		if back := p.observed(); back != o || pack(back) != p || p.id() != o.UID {
			t.Fatalf("%+v is unpacked as %+v", o, back)
		}
		all := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}`), 1, 4, rapid.ID).Draw(t, "spaces")
		var s spaces
		var in []key.Space
		for _, one := range all {
			s, in = s.with(key.Space(one)).with(key.Space(all[0])), append(in, key.Space(one))
		}
		if !slices.Equal(s.list(), in) || s.first() != in[0] || s.one() != (len(in) == 1) || s.none() {
			t.Fatalf("%v are %v", in, s.list())
		}
		if rest := s.without(in[:1]); !slices.Equal(rest.list(), in[1:]) || rest.none() != (len(in) == 1) || s.without(nil) != s {
			t.Fatalf("%v without the first are %v", in, rest.list())
		}
	})
}

// TestItemsAreSmall holds what the agent keeps of each object, next to its identity, to what it is:
// of 50,000 objects, 16 bytes more of each are 1 MB.
func TestItemsAreSmall(t *testing.T) {
	if size := unsafe.Sizeof(Item{}); size > 176 {
		t.Errorf("an item has %d bytes", size)
	}
}
