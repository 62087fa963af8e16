package hub_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"orrery.dev/orrery/internal/hub"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/queries"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// followSites gives a hub rules of its own for renderings: what a Customizer releases has
// locations get, beside it, the value of their label "where".
func followSites(h hub.Internals) {
	h.Engine.Rules = func(c placement.Customized) placement.Rules {
		var paths []string
		for _, r := range c.Spec.Rules {
			paths = append(paths, r.Path)
		}
		return placement.Rules{Text: strings.Join(paths, " "), Needs: func(site placement.Site) string { return site.Labels.Get("where") }}
	}
	h.Renderer.Follow = func(value []byte, inputs []placement.Input) ([]byte, error) {
		var object map[string]any
		if err := json.Unmarshal(value, &object); err != nil {
			return nil, err
		}
		for _, in := range inputs {
			for path := range strings.FieldsSeq(in.Rules) {
				setSite(object, path, in.Needs)
			}
		}
		return json.Marshal(object)
	}
}

// setSite is the rule for one path. Locations whose values differ only behind a dot are
// of one class.
func setSite(object map[string]any, path, where string) {
	data, _ := object["data"].(map[string]any)
	if data == nil {
		data = map[string]any{}
	}
	site, _, _ := strings.Cut(where, ".")
	data["site of "+strings.TrimPrefix(path, "$.data.")], object["data"] = site, data
}

// TestClassesReachLocations follows what two locations of different classes get of one
// object, by sessions, views and answers, as their classes change.
func TestClassesReachLocations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := startPrepared(t, dir, followSites)
	r.addSpace("s")
	for _, l := range []key.Location{"a", "b"} {
		r.addLocation(l, map[string]string{"in": "yes", "where": string(l)})
	}
	r.create("s", placementsGVR, object("orrery.dev/v1alpha1", "Placement", "", "p", nil, map[string]any{"spec": map[string]any{
		"locations": []any{map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"in": "yes"}}}},
		"downsync":  []any{map[string]any{"resources": []any{"configmaps"}}},
	}}))
	r.addConfigMap("one", nil, "1")
	a, b := r.receiver("a"), r.receiver("b")
	watching := r.watchView("b")
	defer watching.Stop()
	r.create("s", customizersGVR, object("orrery.dev/v1alpha1", "Customizer", "", "z", nil, map[string]any{"spec": map[string]any{
		"match": []any{map[string]any{"names": []any{"one"}}},
		"rules": []any{map[string]any{"path": "$.data.x", "release": true}},
	}}))
	rev := r.addConfigMap("two", nil, "2")
	a.receives(rev, "one two")
	b.receives(rev, "one two")
	a.gets("a")
	b.gets("b")

	// Only b is notified of a change of the rendering class alone, and only if its rendering changes.
	for _, step := range []struct{ where, name, receives string }{{"c", "three", "one three"}, {"c.1", "four", "four"}, {"d.1", "five", "five one"}} {
		r.relabel("b", step.where)
		rev := r.addConfigMap(step.name, nil, "")
		a.receives(rev, step.name)
		b.receives(rev, step.receives)
		a.gets("a")
		b.gets(step.where[:1])
	}
	r.seesSites(watching, "b", "c", "d")

	// Streams resume across a change, also by a hub that was started again.
	b.stream.close()
	r.relabel("b", "e")
	before := maps.Clone(b.holding)
	b.resume("one")
	b.gets("e")
	r.stop()
	*r = *startPrepared(t, dir, followSites)
	b.holding = before
	b.resume("one")
	b.gets("e")
}

// receiver follows a location by a stream, and knows what it was sent last.
type receiver struct {
	holding
	r      *running
	l      key.Location
	agent  *testAgent
	stream *stream
	mark   wire.Mark
	put    map[string]*wire.Put
}

func (r *running) receiver(l key.Location) *receiver {
	r.t.Helper()
	h := &receiver{holding: holding{}, r: r, l: l, put: map[string]*wire.Put{}}
	_, h.mark = r.join(l).walk(h.holding)
	h.resume("")
	return h
}

// resume opens a stream where the last one ended, and applies what it begins with.
func (h *receiver) resume(want string) {
	h.r.t.Helper()
	h.agent = h.r.join(h.l) // which ends the credential of the one before
	h.stream = h.agent.open(h.mark.Revision, h.mark.Marker)
	f, _ := h.stream.next()
	if f.Hello == nil || !f.Hello.Resumed {
		h.r.t.Fatalf("not resumed: %+v", f)
	}
	mark := h.mark
	h.receives(f.Hello.Revision, want)
	if want != "" {
		h.mark = mark // for the next one to resume there
	}
}

// receives applies the frames up to the mark of a revision, which must be about objects with some names.
func (h *receiver) receives(rev int64, want string) {
	h.r.t.Helper()
	var names []string
	for {
		f, ok := h.stream.next()
		if !ok {
			h.r.t.Fatal("the stream ended")
		}
		if f.Put != nil {
			name := f.Put.Key[strings.LastIndex(f.Put.Key, "/")+1:]
			h.put[name], names = f.Put, append(names, name)
		}
		h.take(h.r.t, f)
		if f.Mark == nil {
			continue
		}
		if h.mark = *f.Mark; h.mark.Revision >= rev {
			slices.Sort(names)
			if got := strings.Join(names, " "); got != want {
				h.r.t.Errorf("%s receives %q, want %q", h.l, got, want)
			}
			return
		}
	}
}

// gets checks that the location has "one" with its site, in all answers that show it.
func (h *receiver) gets(site string) {
	r, put := h.r, h.put["one"]
	r.t.Helper()
	var sent map[string]any
	if err := json.Unmarshal(put.Object, &sent); err != nil {
		r.t.Fatal(err)
	}
	if put.Digest != wire.SumOf(put.Object) || dig(sent, "data", "site of x") != site {
		r.t.Errorf("%s was sent %s, want site %s", h.l, put.Object, site)
	}
	shown, err := r.view(h.l).Resource(configMapsGVR).Namespace("default").Get(r.t.Context(), "one", metav1.GetOptions{})
	if err != nil || text(shown.Object["data"]) != text(sent["data"]) {
		r.t.Errorf("the view of %s has %v, sent was %s: %v", h.l, shown, put.Object, err)
	}
	var why queries.Why
	r.question(&why, route.Why, "object", "core/configmaps/default/one", "location", string(h.l))
	if why.Digest != put.Digest.String() {
		r.t.Errorf("%s gets %s by an answer, and was sent %s", h.l, why.Digest, put.Digest)
	}
}

func (r *running) relabel(l, where string) {
	r.t.Helper()
	body := []byte(`{"metadata":{"labels":{"where":"` + where + `"}}}`)
	if _, err := r.space(key.Root).Resource(locationsGVR).Patch(r.t.Context(), l, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) view(l key.Location) dynamic.Interface {
	r.t.Helper()
	d, err := dynamic.NewForConfig(r.config(route.View(l).String()))
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// watchView watches the ConfigMap "one" of a location's view from now on.
func (r *running) watchView(l key.Location) watch.Interface {
	r.t.Helper()
	one := metav1.ListOptions{FieldSelector: "metadata.name=one"}
	list, err := r.view(l).Resource(configMapsGVR).List(r.t.Context(), one)
	if err != nil {
		r.t.Fatal(err)
	}
	one.ResourceVersion = list.GetResourceVersion()
	w, err := r.view(l).Resource(configMapsGVR).Watch(context.Background(), one)
	if err != nil {
		r.t.Fatal(err)
	}
	return w
}

// seesSites reads the next events of a watch, which are to be changes to some sites.
func (r *running) seesSites(w watch.Interface, sites ...string) {
	r.t.Helper()
	for _, want := range sites {
		var e watch.Event
		select {
		case e = <-w.ResultChan():
		case <-time.After(timeout):
			r.t.Fatal("no event came")
		}
		if got := text(e.Object); e.Type != watch.Modified || !strings.Contains(got, `"site of x":"`+want+`"`) {
			r.t.Errorf("a watch receives %s %s, want site %s", e.Type, got, want)
		}
	}
}
