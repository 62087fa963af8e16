package upsync

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/seeds"
)

// TestUsage shows, over random changes, that what is counted equals a recount, and that what
// is no more used is forgotten.
func TestUsage(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		u := NewUsage()
		tbl := table.New(table.Config{Observer: u, WindowSteps: 10, WindowBytes: 1 << 20})
		rev := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"change": func(t *rapid.T) {
				rev++
				r := key.Report{
					Location: rapid.SampledFrom([]key.Location{"a", "b"}).Draw(t, "location"),
					Origin:   rapid.SampledFrom([]key.Origin{key.Placed, key.Upsynced, key.Owned}).Draw(t, "origin"),
					Object: key.Object{Space: rapid.SampledFrom([]key.Space{"s", "t"}).Draw(t, "space"), Identity: key.Identity{
						Resource: key.ConfigMaps, Namespace: "n", Name: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name"),
					}},
				}
				change := table.Update{Key: r.Key(), ModRev: rev, CreateRev: 1}
				if n := rapid.IntRange(0, 3).Draw(t, "size"); n > 0 {
					change.Value = fmt.Appendf(nil, `{"owner":%q}`, make([]byte, n))
				}
				if err := tbl.Apply(rev, []table.Update{change}); err != nil {
					t.Fatal(err)
				}
			},
			"": func(t *rapid.T) {
				want := map[key.Location]map[spaceOrigin]Used{}
				tbl.Snapshot().Ascend("r/", func(row *table.Row) bool {
					r, err := key.ParseReport(row.Key)
					if err != nil {
						t.Fatal(err)
					}
					if r.Origin == key.Placed {
						return true
					}
					if want[r.Location] == nil {
						want[r.Location] = map[spaceOrigin]Used{}
					}
					p := spaceOrigin{r.Origin, r.Space}
					used := want[r.Location][p]
					want[r.Location][p] = Used{used.Objects + 1, used.Bytes + int64(len(row.Value))}
					if !u.Contains(r.Location, r.Space, r.Origin) {
						t.Fatalf("%s is not known", row.Key)
					}
					return true
				})
				if !maps.EqualFunc(u.byLocation, want, func(a, b map[spaceOrigin]Used) bool { return maps.Equal(a, b) }) {
					t.Fatalf("counted %v, want %v", u.byLocation, want)
				}
				for l, counts := range want {
					if len(u.Prefixes(l)) != len(counts) {
						t.Fatalf("%s has %v", l, u.Prefixes(l))
					}
				}
			},
		})
	})
}
