package read

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/limit"
)

// follower reads a watch of an angle.
type follower struct {
	angle angle
	from  int64
	watch watch.Interface
}

// shown takes apart the JSON of an object as a reader writes it.
func shown(t tester, o *object) (place, rest string, rev int64) {
	var b bytes.Buffer
	if err := o.writeJSON(&b); err != nil {
		t.Fatalf("write %q: %v", o.row.Key, err)
	}
	version := gjson.GetBytes(b.Bytes(), "metadata.resourceVersion").String()
	rev, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatalf("resourceVersion %q in %s", version, &b)
	}
	field := `"resourceVersion":"` + version + `"`
	plain := strings.Replace(strings.Replace(b.String(), field+",", "", 1), field, "", 1)
	return o.format.view.lens.place(o.row), plain, rev
}

// sameJSON compares objects whatever the order of their fields.
func sameJSON(a, b string) bool {
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return compact(x) == compact(y)
}

// read reads one event; ok is false when the watch has ended. An error event
// is returned as an error.
func (f *follower) read(t tester) (e sent, ok bool, err error) {
	select {
	case event, ok := <-f.watch.ResultChan():
		if !ok {
			return sent{}, false, nil
		}
		if event.Type == watch.Error {
			return sent{}, false, apierrors.FromObject(event.Object)
		}
		place, plain, rev := shown(t, event.Object.(*object))
		place = shortPlace(f.angle.lens, place)
		return sent{event.Type, place, rev, plain}, true, nil
	case <-time.After(limit.Wait):
		t.Fatalf("%s: waited too long for an event", f.angle)
		return sent{}, false, nil
	}
}

func follow(t *rapid.T, f *fixture, a angle, from int64) *follower {
	ctx, opts := a.options(fmt.Sprint(from))
	w, err := f.reader(a.lens, a.gvr).Watch(ctx, opts)
	if err != nil {
		t.Fatalf("%s: watch from %d: %v", a, from, err)
	}
	return &follower{angle: a, from: from, watch: w}
}

// cutSomewhere reads some events, ends the watch and goes on from the last
// revision that it saw.
func cutSomewhere(t *rapid.T, f *fixture, m *model, w *follower) {
	want := m.between(w.from, m.rev(), w.angle)
	n := rapid.IntRange(0, len(want)).Draw(t, "events before the cut")
	for i := range n {
		got, ok, err := w.read(t)
		if !ok || err != nil {
			t.Fatalf("%s from %d: ended (%v) instead of %v", w.angle, w.from, err, want[i])
		}
		compareEvent(t, w, got, want[i])
		w.from = got.rev
	}
	w.watch.Stop()
	*w = *follow(t, f, w.angle, w.from)
}

func drain(t *rapid.T, m *model, w *follower) {
	for _, want := range m.between(w.from, m.rev(), w.angle) {
		got, ok, err := w.read(t)
		if !ok || err != nil {
			t.Fatalf("%s from %d: ended (%v) instead of %v", w.angle, w.from, err, want)
		}
		compareEvent(t, w, got, want)
	}
}

func compareEvent(t *rapid.T, w *follower, got, want sent) {
	if got.kind != want.kind || got.place != want.place || got.rev != want.rev || !sameJSON(got.object, want.object) {
		t.Fatalf("%s from %d:\n got %+v\nwant %+v", w.angle, w.from, got, want)
	}
}
