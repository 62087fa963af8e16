package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/test/support/limit"
)

// shown is an event of a watch: its type, the name of its object, and the revision.
type shown struct {
	kind, name, revision string
	initial              bool // the end of the initial events of the watch
}

func (e shown) String() string { return e.kind + " " + e.name }

// followed is an open watch, read as it comes.
type followed struct {
	t      testing.TB
	what   string
	events chan shown // closed when the watch has ended
}

// follows opens a watch. It ends with the test.
func (c client) follows(path string) *followed {
	c.r.t.Helper()
	ctx, cancel := context.WithCancel(c.r.t.Context())
	lasting := *c.Client
	lasting.Timeout = 0 // each wait has its own
	resp := client{&lasting, c.r}.open(ctx, "GET "+path, "")
	if resp.StatusCode != http.StatusOK {
		cancel()
		c.r.t.Fatalf("%s: %s", path, resp.Status)
	}
	f := &followed{t: c.r.t, what: path, events: make(chan shown, 100)}
	done := make(chan struct{})
	c.r.t.Cleanup(func() {
		cancel()
		<-done
		_ = resp.Body.Close()
	})
	go func() {
		defer close(done)
		defer close(f.events)
		for decoder := json.NewDecoder(resp.Body); ; {
			var e struct {
				Type   string
				Object struct{ Metadata metav1.ObjectMeta }
			}
			if err := decoder.Decode(&e); err != nil {
				return
			}
			m := e.Object.Metadata
			f.events <- shown{e.Type, m.Name, m.ResourceVersion, m.Annotations[metav1.InitialEventsAnnotationKey] == "true"}
		}
	}()
	return f
}

// next returns the next event except for bookmarks; none if the watch has ended.
func (f *followed) next() shown {
	f.t.Helper()
	ctx := limit.Context(f.t, f.what)
	for {
		select {
		case e := <-f.events:
			if e.kind == "BOOKMARK" && !e.initial {
				continue
			}
			return e
		case <-ctx.Done():
			f.t.Fatalf("%s: nothing follows", f.what)
		}
	}
}

// expect expects events, in this order, and returns the last one.
func (f *followed) expect(want ...string) (last shown) {
	f.t.Helper()
	for _, w := range want {
		if last = f.next(); last.String() != w {
			f.t.Fatalf("%s: %q, want %q", f.what, last, w)
		}
	}
	return last
}

// ends expects that the watch ends without more events.
func (f *followed) ends() {
	f.t.Helper()
	if e := f.next(); e != (shown{}) {
		f.t.Errorf("%s: goes on with %q", f.what, e)
	}
}

// listed are the names in a list of clusters or others, and its revision.
func (c client) listed(path string) (names []string, revision string) {
	c.r.t.Helper()
	code, body := c.send("GET "+path, "")
	var list struct {
		Metadata metav1.ListMeta
		Items    []struct{ Metadata metav1.ObjectMeta }
	}
	if err := json.Unmarshal([]byte(body), &list); err != nil || code != http.StatusOK {
		c.r.t.Fatalf("%s: %d %s", path, code, body)
	}
	for _, o := range list.Items {
		names = append(names, o.Metadata.Name)
	}
	return names, list.Metadata.ResourceVersion
}

// begins has an informer's two ways to begin: a list and a watch after it, or a streaming list.
func (c client) begins(path string, streaming bool, there ...string) *followed {
	c.r.t.Helper()
	if !streaming {
		names, revision := c.listed(path)
		if fmt.Sprint(names) != fmt.Sprint(there) {
			c.r.t.Errorf("%s: lists %v, want %v", path, names, there)
		}
		return c.follows(path + "?watch=1&allowWatchBookmarks=true&resourceVersion=" + revision)
	}
	f := c.follows(path + "?" + streamed)
	for _, name := range there {
		f.expect("ADDED " + name)
	}
	if e := f.next(); !e.initial || e.kind != "BOOKMARK" || e.revision == "" {
		c.r.t.Errorf("%s: %+v, want the end of the initial events", path, e)
	}
	return f
}

func clustersOn(f key.ExportView, s key.Space) string {
	return route.ExportViewRoot(f, s).Path("apis/fleet.example.org/v1/clusters")
}

// watchedView is a way to watch the clusters of an export view.
type watchedView struct {
	view      key.ExportView
	space     key.Space
	streaming bool
}

func (w watchedView) path() string { return clustersOn(w.view, w.space) }

func watchedViews() (all []watchedView) {
	for _, f := range []key.ExportView{exportViewOf("", ""), exportViewOf("classes", "gold")} {
		for _, s := range []key.Space{key.AllSpaces, "c"} {
			all = append(all, watchedView{f, s, false}, watchedView{f, s, true})
		}
	}
	return all
}

// TestRevokedUnderAWatchOfAnExportView: watches of an export view, whole or a slice, of all spaces or of one, end
// with the Grant that allows them, and not with an edit that still allows them. When the Grant is restored, they
// can resume.
func TestRevokedUnderAWatchOfAnExportView(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	c := r.bearing(r.token(`{"user":"jane"}`).Status.Token)
	whole, gold := exportViewOf("", ""), exportViewOf("classes", "gold")
	r.only("p", "jane", contentOf(whole, "list", "watch"), contentOf(gold, "list", "watch"))
	r.create("c", clustersGVR, cluster("one", "gold"))

	all := watchedViews()
	open := map[watchedView]*followed{}
	last := map[watchedView]string{}
	for _, w := range all {
		open[w] = c.begins(w.path(), w.streaming, "one")
	}
	tell := func(name string) {
		t.Helper()
		r.create("c", clustersGVR, cluster(name, "gold"))
		for w, f := range open {
			last[w] = f.expect("ADDED " + name).revision
		}
	}
	tell("two")
	r.only("p", "jane", contentOf(whole, "*"), contentOf(gold, "get", "list", "watch"))
	tell("three")

	r.revoke("p", "jane")
	r.create("c", clustersGVR, cluster("unseen", "gold"))
	for w, f := range open {
		f.ends()
		for _, query := range []string{"", "?watch=1&resourceVersion=" + last[w], "?" + streamed} {
			if code, body := c.send("GET "+w.path()+query, ""); code != http.StatusForbidden {
				t.Errorf("%s%s: %d %s", w.path(), query, code, body)
			}
		}
	}

	r.only("p", "jane", contentOf(whole, "list", "watch"), contentOf(gold, "list", "watch"))
	for _, w := range all {
		if w.streaming {
			open[w] = c.begins(w.path(), true, "one", "three", "two", "unseen")
			continue
		}
		open[w] = c.follows(w.path() + "?watch=1&resourceVersion=" + last[w])
		open[w].expect("ADDED unseen")
	}
	r.onlyTheirs(c, open)
}

// onlyTheirs checks that a revoked right ends only the watches of its user.
func (r *running) onlyTheirs(c client, open map[watchedView]*followed) {
	r.t.Helper()
	whole, gold := exportViewOf("", ""), exportViewOf("classes", "gold")
	r.only("p", "jane", contentOf(whole, "watch"), contentOf(gold, "list"))
	r.create("c", clustersGVR, cluster("later", "gold"))
	for w, f := range open {
		if w.view == gold {
			f.ends()
			c.listed(w.path())
			continue
		}
		f.expect("ADDED later")
		if code, _ := c.send("GET "+w.path(), ""); code != http.StatusForbidden {
			r.t.Errorf("%s: listed without the verb: %d", w.path(), code)
		}
	}
}

// TestWhatConsumersTakeBack: when a consumer rejects a claim or deletes a binding, watches of its space receive
// deletions; watches of all spaces continue.
func TestWhatConsumersTakeBack(t *testing.T) {
	t.Parallel()
	r := start(t, t.TempDir())
	r.sliceFleet()
	c := r.bearing(r.controller())
	r.create("c", clustersGVR, cluster("one", "gold"))
	r.create("c", configMapsGVR, object("v1", "ConfigMap", "default", "x", map[string]string{"use": "fleet"}, nil))
	whole, gold := exportViewOf("", ""), exportViewOf("classes", "gold")
	maps := func(s key.Space) string { return route.ExportViewRoot(whole, s).Path("api/v1/configmaps") }
	all, slice, ofC := c.begins(clustersOn(whole, "*"), true, "one"), c.begins(clustersOn(gold, "*"), false, "one"), c.begins(clustersOn(gold, "c"), true, "one")
	claimed, claimedOfC := c.begins(maps("*"), true, "x"), c.begins(maps("c"), false, "x")

	decide := func(state string) {
		r.patchObject("c", bindingsGVR, "fleet", `{"spec":{"claims":[{"group":"","resource":"configmaps","state":"`+state+`"}]}}`)
	}
	for _, f := range []*followed{claimed, claimedOfC} {
		decide("Rejected")
		f.expect("DELETED x")
		decide("Accepted")
		f.expect("ADDED x")
		if f == claimed {
			claimedOfC.expect("DELETED x", "ADDED x")
		} else {
			claimed.expect("DELETED x", "ADDED x")
		}
	}

	r.remove("c", bindingsGVR, "fleet")
	for _, f := range []*followed{all, slice, ofC} {
		f.expect("DELETED one")
	}
	claimed.expect("DELETED x")
	ofC.ends()
	r.create("d", clustersGVR, cluster("late", "gold"))
	all.expect("ADDED late")
	slice.expect("ADDED late")
	if code, body := c.send("GET "+clustersOn(gold, "c"), ""); code != http.StatusNotFound || strings.Contains(body, "one") {
		t.Errorf("of a space that has not bound it: %d %s", code, body)
	}
}
