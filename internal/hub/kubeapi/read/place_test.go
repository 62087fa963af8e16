package read

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

func TestHolds(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1", "at=l1"), cm("b", "x", "2", "at=l1.l2"))
	held := sample{gvr: namespaces, space: "a", name: "held", labels: map[string]string{"at": "l1.l2", "hold": "why"}}
	f.put(held)
	if row, _ := f.table.Get(held.key()); IsDesired(row, "l1") {
		t.Error("l1 holds an object that is held back")
	}
	for space, want := range map[key.Space]bool{"a": true, "b": false} {
		if row, _ := f.table.Get(cm(space, "x", "").key()); IsDesired(row, "l1") != want {
			t.Errorf("l1 holds the object of %s: %v", space, !want)
		}
	}
}

// TestSharedEventsAreOfOneClass checks events of the same entry and revision but of different classes.
// All events of a revision but the last carry the revision before it.
func TestSharedEventsAreOfOneClass(t *testing.T) {
	f := newFixture(t)
	defer f.server.Close()
	f.put(cm("a", "x", "0", "at=l1"))
	row, _ := f.table.Get(cm("a", "x", "").key())
	encode := func(decoded runtime.Object, w io.Writer) error { return json.NewEncoder(w).Encode(decoded) }
	for _, needs := range []string{"1", "2", "1"} {
		as := &placedAt{[]placement.Place{{Location: "l1", Class: classes()[needs]}}}
		o := &object{format: f.reader(Location("l1", key.Same), configMaps).format, row: &table.Row{Entry: row.Entry, In: as}, rev: 7}
		var b strings.Builder
		if err := o.encodeShared("protobuf", encode, &b); err != nil || !strings.Contains(b.String(), `"data":{"v":"`+needs+`"}`) {
			t.Errorf("class %s is sent %s %v", needs, b.String(), err)
		}
	}
}
