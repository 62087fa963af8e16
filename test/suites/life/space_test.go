package life

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// watching is an open watch, in JSON.
type watching struct {
	t      *testing.T
	lines  chan string // closed when the watch ends
	ended  error       // why; to be read when lines is closed
	cancel context.CancelFunc
}

// watch opens a watch.
func (a *api) watch(path string) *watching {
	a.t.Helper()
	ctx, cancel := context.WithCancel(a.t.Context())
	resp, err := a.open(ctx, http.MethodGet, path, "", "") //nolint:bodyclose // closed by the reader below
	if err != nil {
		a.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		a.t.Fatalf("watch %s: %s", path, resp.Status)
	}
	w := &watching{t: a.t, lines: make(chan string, 1<<12), cancel: cancel}
	go func() {
		defer close(w.lines)
		defer resp.Body.Close()
		for in := bufio.NewReader(resp.Body); ; {
			line, err := in.ReadString('\n')
			if err != nil {
				w.ended = err
				return
			}
			w.lines <- line
		}
	}()
	a.t.Cleanup(func() { w.close() })
	return w
}

// close ends the watch from this side.
func (w *watching) close() {
	w.cancel()
	for range w.lines {
	}
}

// next is the next event; ok is false when the watch has ended.
func (w *watching) next() (event gjson.Result, ok bool) {
	w.t.Helper()
	select {
	case line, ok := <-w.lines:
		return gjson.Parse(line), ok
	case <-time.After(soon):
		w.t.Fatalf("a watch said nothing for %s", soon)
		return event, false
	}
}

// TestDeletedSpaceIsGone shows that a deleted space is gone for its users at once,
// whatever is in it, and that no other space is affected.
func TestDeletedSpaceIsGone(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	a, b := h.space("a"), h.space("b")
	a.post(crds, gadgetCRD).is(t, http.StatusCreated, "define gadgets")
	a.post(gadgets, gadget("v1", "g", held)).is(t, http.StatusCreated, "create")
	fill(t, a, 20)

	list := a.get(configMaps + "?limit=1")
	revision := list.field("metadata.resourceVersion").String()
	verbs := everyVerb(list.field("metadata.continue").String(), revision)
	for _, v := range verbs {
		if v.write || v.endless {
			continue
		}
		a.do(v.method, v.path, v.content, v.body).is(t, http.StatusOK, v.method+" "+v.path+" before the deletion")
	}
	ends := []*watching{
		a.watch(configMaps + "?watch=true"), a.watch(gadgets + "?watch=true"), a.watch(configMaps + "?watch=true&fieldSelector=metadata.name%3Dc-1"),
		a.watch("/api/v1/namespaces?watch=true"), a.watch("/apis/orrery.dev/v1alpha1/locations?watch=true&resourceVersion=" + revision),
	}
	stays := b.watch(configMaps + "?watch=true&resourceVersion=" + revision)

	h.delete(spaces+"/a").is(t, http.StatusOK, "delete the space")
	for _, v := range verbs {
		if v.endless {
			v.path += "?watch=true"
		}
		got := a.do(v.method, v.path, v.content, v.body)
		if got.code != http.StatusNotFound || got.field("reason").String() != string(metav1.StatusReasonNotFound) || got.field("message").String() != `spaces.orrery.dev "a" not found` {
			t.Errorf("%s %s after the deletion: %s", v.method, v.path, got)
		}
	}
	for i, w := range ends {
		for event, ok := w.next(); ok; event, ok = w.next() {
			if event.Get("type").String() != "ADDED" {
				t.Errorf("watch %d saw %s", i, event)
			}
		}
		if !errors.Is(w.ended, io.EOF) {
			t.Errorf("watch %d ended with %v", i, w.ended)
		}
	}
	h.nothingLeft("a")
	b.post(configMaps, configMap("c-0", "")).is(t, http.StatusCreated, "create")
	if event, ok := stays.next(); !ok || event.Get("object.metadata.name").String() != "c-0" {
		t.Errorf("the watch of the other space: %s, %v", event, stays.ended)
	}
}

// TestSpaceIsMadeAgain deletes spaces, kills the hub in the middle of it, and creates
// them again as soon as that is possible: they are new, and stay so.
func TestSpaceIsMadeAgain(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	const objects = 1500 // some steps of the deletion
	a := h.space("a")
	interrupted := false
	for round := 0; !interrupted && round < 20; round++ {
		fill(t, a, objects)
		old := uids(a)
		h.delete(spaces+"/a").is(t, http.StatusOK, "delete the space")
		h.Kill()
		interrupted = len(h.keys("a")) > 2
		h.Start()
		created := h.again("a")
		if got := uids(a); len(got) != 0 {
			t.Fatalf("the new space has %d objects", len(got))
		}
		fill(t, a, 50)
		now := uids(a)
		if len(now) != 50 {
			t.Errorf("the new space has %d of 50 objects", len(now))
		}
		for name, uid := range now {
			if old[name] == uid {
				t.Errorf("%s has the UID of the old one", name)
			}
		}
		if uid := h.get(spaces + "/a").field("metadata.uid").String(); uid != created {
			t.Errorf("the new space %s is %s now", created, uid)
		}
		h.delete(spaces+"/a").is(t, http.StatusOK, "delete the space again")
		h.again("a")
	}
	if !interrupted {
		t.Error("the hub was never killed in the middle of a deletion")
	}
	h.delete(spaces+"/a").is(t, http.StatusOK, "delete the space")
	h.nothingLeft("a")
}

// again creates a space with the name of one that is being deleted, as soon as that is
// possible, and returns its UID.
func (h *hub) again(name string) (uid string) {
	h.t.Helper()
	env.Eventually(h.t, soon, func() error {
		got := h.post(spaces, spaceNamed(name))
		switch got.code {
		case http.StatusCreated:
			uid = got.field("metadata.uid").String()
			return nil
		case http.StatusConflict:
			return errors.New(got.String())
		}
		h.t.Fatalf("create space %s: %s", name, got)
		return nil
	})
	return uid
}

// verb is a kind of request to a space.
type verb struct {
	method, path, content, body string
	// write: the request changes something. endless: it is a watch, if it succeeds.
	write, endless bool
}

func everyVerb(token, revision string) []verb {
	one := configMaps + "/c-1"
	return []verb{
		{method: http.MethodGet, path: one},
		{method: http.MethodGet, path: one + "?resourceVersion=0"},
		{method: http.MethodGet, path: configMaps},
		{method: http.MethodGet, path: configMaps + "?resourceVersion=0"},
		{method: http.MethodGet, path: configMaps + "?resourceVersionMatch=Exact&resourceVersion=" + revision},
		{method: http.MethodGet, path: configMaps + "?limit=1&continue=" + token},
		{method: http.MethodGet, path: gadgets + "/g"},
		{method: http.MethodGet, path: configMaps, endless: true},
		{method: http.MethodGet, path: gadgets, endless: true},
		{method: http.MethodGet, path: "/api"},
		{method: http.MethodGet, path: "/apis"},
		{method: http.MethodGet, path: "/apis/apps/v1"},
		{method: http.MethodGet, path: "/openapi/v3"},
		{method: http.MethodGet, path: "/version"},
		{method: http.MethodPost, path: configMaps, content: asJSON, body: configMap("new", ""), write: true},
		{method: http.MethodPost, path: configMaps + "?dryRun=All", content: asJSON, body: configMap("new", ""), write: true},
		{method: http.MethodPut, path: one, content: asJSON, body: configMap("c-1", ""), write: true},
		{method: http.MethodPatch, path: one, content: asMerge, body: `{"data":{"k":"w"}}`, write: true},
		{method: http.MethodPatch, path: one + "?fieldManager=test", content: asApply, body: configMap("c-1", ""), write: true},
		{method: http.MethodPatch, path: "/api/v1/namespaces/default/status", content: asMerge, body: `{"status":{}}`, write: true},
		{method: http.MethodDelete, path: one, write: true},
		{method: http.MethodDelete, path: configMaps, write: true},
		{method: http.MethodDelete, path: "/api/v1/namespaces/default", write: true},
	}
}

// fill makes ConfigMaps c-0, c-1, ..., of which some are held by finalizers.
func fill(t *testing.T, a *api, n int) {
	t.Helper()
	many(t, n, func(ctx context.Context, i int) error {
		metadata := ""
		if i%10 == 0 {
			metadata = held
		}
		return a.must(ctx, http.StatusCreated, http.MethodPost, configMaps, asJSON, configMap(fmt.Sprint("c-", i), metadata))
	})
}

// uids are those of a space's ConfigMaps, by name.
func uids(a *api) map[string]string {
	a.t.Helper()
	all := map[string]string{}
	for _, item := range a.get(configMaps).is(a.t, http.StatusOK, "list").field("items").Array() {
		all[item.Get("metadata.name").String()] = item.Get("metadata.uid").String()
	}
	return all
}

// TestDeletedSpaceAtALocation deletes a space whose objects are at a location: they are
// removed by policy, so those beyond the prune guard wait for the operator, and those of
// another space stay.
func TestDeletedSpaceAtALocation(t *testing.T) {
	t.Parallel()
	h := startHub(t)
	w := world.ForHub(t, h.Hub)
	site := w.Join("edge", nil, env.APIOnly())
	const many, free, others = 70, 50, 5
	place := func(name string, n int) {
		a := h.space(name)
		a.post("/apis/orrery.dev/v1alpha1/placements", `{"apiVersion":"orrery.dev/v1alpha1","kind":"Placement","metadata":{"name":"all"},
			"spec":{"locations":[{"names":["edge"]}],"downsync":[{"resources":["configmaps"]}]}}`).is(t, http.StatusCreated, "place")
		for i := range n {
			a.post(configMaps, configMap(fmt.Sprint(name, "-", i), held)).is(t, http.StatusCreated, "create")
		}
	}
	place("gone", many)
	place("kept", others)
	there := func(space string, want int) func() error {
		return func() error {
			list, err := site.Client.Resource(world.ConfigMaps).List(t.Context(), metav1.ListOptions{LabelSelector: "orrery.dev/space=" + space})
			if err == nil && len(list.Items) != want {
				err = fmt.Errorf("%d of space %s are at the location, want %d", len(list.Items), space, want)
			}
			return err
		}
	}
	w.Eventually("all are there", there("gone", many))
	h.delete(spaces+"/gone").is(t, http.StatusOK, "delete the space")
	w.Eventually("as many go as may", there("gone", many-free))
	var shown string
	w.Eventually("the rest waits", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: w.Root, Args: []string{"location", "confirm-prune", "edge"}}.Try(t)
		command := regexp.MustCompile(`orrery (location confirm-prune edge --digest [0-9a-f]+)`).FindStringSubmatch(out)
		if command == nil || !strings.Contains(out, fmt.Sprint(many-free)) {
			return fmt.Errorf("shown: %s (%w)", out, err)
		}
		shown = command[1]
		return nil
	})
	if err := there("gone", many-free)(); err != nil {
		t.Error(err)
	}
	env.Orrery(t, w.Root, strings.Fields(shown)...)
	w.Eventually("confirmed ones go", there("gone", 0))
	h.nothingLeft("gone")
	if err := there("kept", others)(); err != nil {
		t.Error(err)
	}
}
