package table

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"orrery.dev/orrery/internal/protocol/key"
)

// updatesOf returns updates of a report, an empty value, a short object and a long one.
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

// TestRowsAreKeptApart shows that a row equals an entry of the same update, takes two allocations, and
// keeps of its update at most a long value: neither the key nor a short value, and that its UID keeps
// no value in memory.
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
			if row.In != nil || row.Exposure != nil || !reflect.DeepEqual(row.Entry, want) {
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

// TestPartsOfWindows shows that a window keeps the changes of a revision without a copy if all belong to
// the window, and else a slice without spare capacity.
func TestPartsOfWindows(t *testing.T) {
	row := func(k string) *Row { return newRow(Update{Key: k, Value: []byte("{}"), CreateRev: 1, ModRev: 1}) }
	object, report := Change{Cur: row("o/s/core/configmaps/n/x")}, Change{Cur: row("r/l/s/placed/core/configmaps/n/x")}
	reports := append(make([]Change, 0, 8), report, report)
	if own := ofWindow(reportWindow, 2, reports); &own[0] != &reports[0] || cap(own) != 2 {
		t.Errorf("of reports alone there are %d with room for %d, or copies", len(own), cap(own))
	}
	own := ofWindow(reportWindow, 2, []Change{report, object, report})
	if want := []Change{report, report}; !reflect.DeepEqual(own, want) || cap(own) != 2 {
		t.Errorf("of both there are %+v, with room for %d", own, cap(own))
	}
}
