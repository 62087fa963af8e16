package table

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// updatesOf are one of a report, of a short object and of a long one.
func updatesOf() map[string]Update {
	object := func(filling string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"name":"x","uid":"0a1b2c3d-0000-4000-8000-000000000000","generation":3,"annotations":{"a":"b"}},"data":{"k":%q}}`, filling)
	}
	return map[string]Update{
		"a report":       {Key: "r/l/s/placed/core/configmaps/n/x", Value: []byte("\x01 as packed"), CreateRev: 1, ModRev: 2},
		"nothing":        {Key: "m/marker", Value: []byte{}, CreateRev: 2, ModRev: 2},
		"a short object": {Key: "o/s/core/configmaps/n/x", Value: object("short"), CreateRev: 3, ModRev: 4},
		"a long object":  {Key: "o/s/core/configmaps/n/x", Value: object(strings.Repeat("long", shortValue)), CreateRev: 3, ModRev: 5},
	}
}

// A row says what an entry of the same update does, is made in two allocations, and keeps of
// what it was made from at most a long value: not the key, nor a short value, and its UID keeps
// no value.
func TestRowsAreKeptApart(t *testing.T) {
	for name, u := range updatesOf() {
		t.Run(name, func(t *testing.T) {
			want := NewEntry(u.Key, bytes.Clone(u.Value), u.CreateRev, u.ModRev)
			k, value := []byte(u.Key), bytes.Clone(u.Value)
			row := newRow(Update{Key: text(k), Value: value, CreateRev: u.CreateRev, ModRev: u.ModRev})
			clear(k)
			if len(value) <= shortValue {
				clear(value)
			} else if &row.Value[0] != &value[0] {
				t.Error("a long value is copied")
			}
			if row.In != nil || row.On != nil || !reflect.DeepEqual(row.Entry, want) {
				t.Errorf("the row is %+v with %+v, want %+v with %+v", row.Entry, row.Meta, want, want.Meta)
			}
			if row.Value == nil || len(value) <= shortValue && cap(row.Value) != len(row.Value) {
				t.Errorf("the value has room for %d bytes more", cap(row.Value)-len(row.Value))
			}
			clear(value)
			if key.ClassOf(u.Key) == key.Objects && row.Meta.UID != want.Meta.UID {
				t.Errorf("the UID is part of the value: it is %q now", row.Meta.UID)
			}
			if n := testing.AllocsPerRun(100, func() { newRow(u) }); n > 2 {
				t.Errorf("a row takes %v allocations", n)
			}
		})
	}
}

// A window keeps the changes of a revision that are all its own as they are, and of others a
// part that is exactly so long.
func TestPartsOfWindows(t *testing.T) {
	row := func(k string) *Row { return newRow(Update{Key: k, Value: []byte("{}"), CreateRev: 1, ModRev: 1}) }
	object, report := Change{Cur: row("o/s/core/configmaps/n/x")}, Change{Cur: row("r/l/s/placed/core/configmaps/n/x")}
	reports := append(make([]Change, 0, 8), report, report)
	if part := ofWindow(reportWindow, 2, reports); &part[0] != &reports[0] || cap(part) != 2 {
		t.Errorf("of reports alone there are %d with room for %d, or copies", len(part), cap(part))
	}
	part := ofWindow(reportWindow, 2, []Change{report, object, report})
	if want := []Change{report, report}; !reflect.DeepEqual(part, want) || cap(part) != 2 {
		t.Errorf("of both there are %+v, with room for %d", part, cap(part))
	}
}
