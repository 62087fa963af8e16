package table_test

import (
	"slices"
	"testing"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// in is a membership of one location, and an exposure of one export view.
type in string

func (i in) Locations() []key.Location       { return []key.Location{key.Location(i)} }
func (i in) Includes(name key.Location) bool { return name == key.Location(i) }

func (i in) SameAt(key.Location, table.Membership) bool { return false }

// everywhere gives all rows the same membership and exposure.
type everywhere struct{}

func (everywhere) Reset() {}

func (everywhere) Derive(_ table.Reader, changes []table.Change) []table.Assignment {
	var all []table.Assignment
	for _, c := range changes {
		if c.Cur != nil {
			all = append(all, table.Assignment{Key: c.Cur.Key, In: in("north")})
		}
	}
	return all
}

// ExportViews returns one export view.
func (i in) ExportViews() []key.ExportView { return []key.ExportView{{Space: "p", Name: string(i)}} }

func (everywhere) Expose(_ table.Reader, changes []table.Change) (all []table.Exposed) {
	for _, c := range changes {
		if c.Cur != nil {
			all = append(all, table.Exposed{Key: c.Cur.Key, Exposure: in("north")})
		}
	}
	return all
}

// TestAscend checks the iteration over the rows of a location and of an export view.
func TestAscend(t *testing.T) {
	tb := table.New(table.Config{Deriver: everywhere{}, Exposer: everywhere{}, WindowSteps: 1, WindowBytes: 1})
	var updates []table.Update
	for _, k := range []string{"o/a/core/configmaps/n/x", "o/a/core/configmaps/n/y", "o/a/core/secrets/n/x", "o/b/core/configmaps/n/x"} {
		updates = append(updates, table.Update{Key: k, Value: []byte("{}"), CreateRev: 7, ModRev: 7})
	}
	tb.Reset(7, updates)
	visit := func(member key.Location, next func(k string) (string, bool)) []string {
		var seen []string
		if rev := tb.AscendMembers(member, func(row *table.Row) (string, bool) {
			seen = append(seen, row.Key)
			return next(row.Key)
		}); rev != 7 {
			t.Errorf("read revision %d, want 7", rev)
		}
		return seen
	}
	for _, test := range []struct {
		name   string
		member key.Location
		next   func(k string) (string, bool)
		want   []string
	}{
		{"all", "north", func(string) (string, bool) { return "", true },
			[]string{"o/a/core/configmaps/n/x", "o/a/core/configmaps/n/y", "o/a/core/secrets/n/x", "o/b/core/configmaps/n/x"}},
		{"the first", "north", func(string) (string, bool) { return "", false }, []string{"o/a/core/configmaps/n/x"}},
		{"on from a later key", "north", func(k string) (string, bool) { return k[:len("o/a/core/")] + "d", true },
			[]string{"o/a/core/configmaps/n/x", "o/a/core/secrets/n/x", "o/b/core/configmaps/n/x"}},
		{"never back", "north", func(string) (string, bool) { return "o/a", true },
			[]string{"o/a/core/configmaps/n/x", "o/a/core/configmaps/n/y", "o/a/core/secrets/n/x", "o/b/core/configmaps/n/x"}},
		{"of another location", "south", func(string) (string, bool) { return "", true }, nil},
	} {
		if got := visit(test.member, test.next); !slices.Equal(got, test.want) {
			t.Errorf("%s: visited %q, want %q", test.name, got, test.want)
		}
		var got []string
		if rev := tb.AscendExportView(key.ExportView{Space: "p", Name: string(test.member)}, "", func(row *table.Row) (string, bool) {
			got = append(got, row.Key)
			return test.next(row.Key)
		}); rev != 7 || !slices.Equal(got, test.want) {
			t.Errorf("%s: in the export view %q at %d, want %q at 7", test.name, got, rev, test.want)
		}
	}
	var later []string
	tb.AscendExportView(key.ExportView{Space: "p", Name: "north"}, "o/a/core/secrets/", func(row *table.Row) (string, bool) {
		later = append(later, row.Key)
		return "", true
	})
	if want := []string{"o/a/core/secrets/n/x", "o/b/core/configmaps/n/x"}; !slices.Equal(later, want) {
		t.Errorf("from a key on: %q, want %q", later, want)
	}
}
