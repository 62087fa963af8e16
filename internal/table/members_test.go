package table_test

import (
	"slices"
	"testing"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// in is a membership of one name.
type in string

func (i in) Told() []key.Location         { return []key.Location{key.Location(i)} }
func (i in) Tells(name key.Location) bool { return name == key.Location(i) }

func (i in) SameAt(key.Location, table.Membership) bool { return false }

// everywhere derives one membership for all rows.
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

func TestAscendMembers(t *testing.T) {
	tb := table.New(table.Config{Deriver: everywhere{}, WindowSteps: 1, WindowBytes: 1})
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
		{"of nobody", "south", func(string) (string, bool) { return "", true }, nil},
	} {
		if got := visit(test.member, test.next); !slices.Equal(got, test.want) {
			t.Errorf("%s: visited %q, want %q", test.name, got, test.want)
		}
	}
}
