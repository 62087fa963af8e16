package read

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/test/support/limit"
)

// inBubble runs a test on a clock of its own.
func inBubble(t *testing.T, test func(t *testing.T)) {
	known() // is compiled once, outside of all bubbles
	synctest.Test(t, test)
}

func watchFrom(ctx context.Context, t *testing.T, f *fixture, l Lens, opts metainternalversion.ListOptions) watch.Interface {
	t.Helper()
	w, err := f.reader(l, configMaps).Watch(ctx, &opts)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func versionOf(t *testing.T, e watch.Event) string {
	t.Helper()
	m, err := meta.Accessor(e.Object)
	if err != nil {
		t.Fatalf("%v of %T", err, e.Object)
	}
	return m.GetResourceVersion()
}

func TestBookmarks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.server.Close()
		f.put(cm("a", "x", "1"))
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
		defer cancel()
		w := watchFrom(ctx, t, f, Space("a"), metainternalversion.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true})
		silent := watchFrom(ctx, t, f, Space("a"), metainternalversion.ListOptions{ResourceVersion: "1"})
		f.put(cm("other", "x", "1"))
		for _, after := range []time.Duration{time.Minute, 2 * time.Minute, 148 * time.Second} {
			e := <-w.ResultChan()
			if e.Type != watch.Bookmark || versionOf(t, e) != "2" {
				t.Errorf("%s at %s", e.Type, versionOf(t, e))
			}
			if got := time.Since(begin); got != after {
				t.Errorf("bookmark after %s, not %s", got, after)
			}
		}
		if e, ok := <-w.ResultChan(); ok {
			t.Errorf("%v after the deadline", e)
		}
		if e, ok := <-silent.ResultChan(); ok {
			t.Errorf("%v for a client that did not ask for bookmarks", e)
		}
	})
}

func TestInitialEvents(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.server.Close()
		f.put(cm("a", "x", "1"))
		f.put(cm("a", "y", "1"))
		yes, no := true, false
		w := watchFrom(t.Context(), t, f, Space("a"), metainternalversion.ListOptions{SendInitialEvents: &yes, AllowWatchBookmarks: true})
		for _, version := range []string{"1", "2"} {
			if e := <-w.ResultChan(); e.Type != watch.Added || versionOf(t, e) != version {
				t.Errorf("%s at %s, want ADDED at %s", e.Type, versionOf(t, e), version)
			}
		}
		e := <-w.ResultChan()
		if end, err := storage.HasInitialEventsEndBookmarkAnnotation(e.Object); e.Type != watch.Bookmark || !end || err != nil || versionOf(t, e) != "2" {
			t.Errorf("%v does not end the initial events", e)
		}
		late := watchFrom(t.Context(), t, f, Space("a"), metainternalversion.ListOptions{SendInitialEvents: &no})
		f.del(cm("a", "x", ""))
		for _, w := range []watch.Interface{w, late} {
			if e := <-w.ResultChan(); e.Type != watch.Deleted || versionOf(t, e) != "3" {
				t.Errorf("%s at %s, want DELETED at 3", e.Type, versionOf(t, e))
			}
			w.Stop()
		}
	})
}

func TestWatchesEnd(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		f.put(cm("a", "x", "1"))
		from := metainternalversion.ListOptions{ResourceVersion: "1"}
		a, b := watchFrom(t.Context(), t, f, Space("a"), from), watchFrom(t.Context(), t, f, Space("b"), from)
		all := watchFrom(t.Context(), t, f, AllSpaces(), from)

		f.put(cm("a", "x", "2"))
		f.apply(table.Update{Key: key.Space("a").Key(), Value: []byte(`{"metadata":{"name":"a","deletionTimestamp":"2026-01-02T03:04:05Z"}}`)})
		f.del(cm("a", "x", ""))
		if e := <-a.ResultChan(); e.Type != watch.Modified {
			t.Errorf("%v, want what happened before the space went", e)
		}
		for _, w := range []watch.Interface{a, watchFrom(t.Context(), t, f, Space("a"), from)} {
			if e, ok := <-w.ResultChan(); ok {
				t.Errorf("%v after the space went", e)
			}
		}
		for _, want := range []watch.EventType{watch.Modified, watch.Deleted} {
			if e := <-all.ResultChan(); e.Type != want {
				t.Errorf("%v, want %s of what goes with the space", e, want)
			}
		}
		synctest.Wait()
		select {
		case e, ok := <-b.ResultChan():
			t.Errorf("%v %v when another space went", e, ok)
		default:
		}

		f.table.Reset(50, thereAlready())
		for _, w := range []watch.Interface{b, all} {
			e := <-w.ResultChan()
			if err := apierrors.FromObject(e.Object); e.Type != watch.Error || !apierrors.IsResourceExpired(err) {
				t.Errorf("%v when the table was loaded anew", e)
			}
			if e, ok := <-w.ResultChan(); ok {
				t.Errorf("%v after the end", e)
			}
		}

		f.mu.Lock()
		f.rev = 50
		f.mu.Unlock()
		last := watchFrom(t.Context(), t, f, Space("b"), metainternalversion.ListOptions{ResourceVersion: "50"})
		f.server.Close()
		if e, ok := <-last.ResultChan(); ok {
			t.Errorf("%v after Close", e)
		}
		if _, err := f.reader(Space("b"), configMaps).Watch(t.Context(), &metainternalversion.ListOptions{ResourceVersion: "50"}); err == nil {
			t.Error("a watch began after Close")
		}
	})
}

// TestWatchesEndWithWhatLetThemIn checks that a watch ends once its client's access is revoked, even
// if the client does not read, or if the watch waited to start. Other watches continue.
func TestWatchesEndWithWhatLetThemIn(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		type grant struct{}
		f := newFixture(t, func(c *Config, _ *table.Config) {
			c.StreamConditions = func(ctx context.Context) []table.Condition {
				name, _ := ctx.Value(grant{}).(string)
				return []table.Condition{{Key: name, IsMet: func(row *table.Row) bool { return row != nil && string(row.Value) == "1" }}}
			}
		})
		defer f.server.Close()
		f.apply(table.Update{Key: "e/mine", Value: []byte("1")}, table.Update{Key: "e/other", Value: []byte("1")})
		with := func(name string) context.Context { return context.WithValue(t.Context(), grant{}, name) }
		for i := range 2 * pendingEvents {
			f.put(cm("a", fmt.Sprint("x", i), "1", "at=north"))
		}
		from := metainternalversion.ListOptions{ResourceVersion: "1"}
		now := metainternalversion.ListOptions{}
		busy, idle, other := watchFrom(with("e/mine"), t, f, Space("a"), from), watchFrom(with("e/mine"), t, f, Location("north", key.Same), now), watchFrom(with("e/other"), t, f, Space("a"), now)
		synctest.Wait()
		f.apply(table.Update{Key: "e/mine", Value: []byte("2")})
		if e, ok := <-idle.ResultChan(); ok {
			t.Errorf("%v, want the end of the watch", e)
		}
		<-time.After(f.server.config.FutureWait) // after that, a client that does not read gets no more events
		synctest.Wait()
		n := 0
		for range busy.ResultChan() {
			n++
		}
		if n > pendingEvents {
			t.Errorf("%d events for a client that did not read, want at most %d", n, pendingEvents)
		}
		yes := true
		initial := metainternalversion.ListOptions{SendInitialEvents: &yes}
		for e := range watchFrom(with("e/mine"), t, f, Space("a"), initial).ResultChan() {
			t.Errorf("%v of a watch that is not to begin", e)
		}
		f.put(cm("a", "last", "1"))
		if e := <-other.ResultChan(); e.Type != watch.Added {
			t.Errorf("%v for another client", e)
		}
	})
}

// TestWatchesEndWithTheirLocation checks that a deleted location ends watches without deletions.
func TestWatchesEndWithTheirLocation(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.server.Close()
		f.put(cm("a", "x", "1", "at=north"))
		f.apply(table.Update{Key: denyKey, Value: []byte("south")})
		open := func(name key.Location, from string) <-chan watch.Event {
			return watchFrom(t.Context(), t, f, Location(name, key.Same), metainternalversion.ListOptions{ResourceVersion: from}).ResultChan()
		}
		north, south := open("north", "2"), open("south", "2")
		gone := []table.Update{{Key: key.Location("north").Key()}, {Key: key.Location("south").Key()}, {Key: denyKey, Value: []byte("north south")}}
		f.apply(gone...)
		// Made again at once.
		f.apply(table.Update{Key: key.Location("north").Key(), Value: []byte(`{"metadata":{"name":"north","uid":"another-one"}}`)}, table.Update{Key: denyKey, Value: []byte("")})
		for name, events := range map[string]<-chan watch.Event{"north": north, "south, which has nothing": south, "the old north": open("north", "2")} {
			e := <-events
			if e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
				t.Errorf("%s: %v, want 410", name, e)
			}
			if e, ok := <-events; ok {
				t.Errorf("%s: %v after the end", name, e)
			}
		}
		f.put(cm("a", "y", "1", "at=north"))
		if e := <-open("north", "4"); e.Type != watch.Added || versionOf(t, e) != "5" {
			t.Errorf("the new north: %v", e)
		}
	})
}

// TestFailedWatchDoesNotStay checks that a watch that the handlers never Stop ends with its context.
func TestFailedWatchDoesNotStay(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1"))
	s := f.serve()
	status, body := get(t, s.URL+"/spaces/a/api/v1/configmaps?watch=1", "Accept", "application/yaml")
	if status != http.StatusNotAcceptable {
		t.Errorf("%d %s", status, body)
	}
	f.server.Close() // waits for all watches
}

// TestClientThatNeverReads checks that the hub disconnects a client that does not read, when the
// window has moved past its watch or a stream condition fails.
func TestClientThatNeverReads(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name+" left by the window", func(t *testing.T) { neverRead(t, http2, 20, false) })
		t.Run(name+" without a space", func(t *testing.T) { neverRead(t, http2, 10000, true) })
	}
}

func neverRead(t *testing.T, http2 bool, window int, without bool) {
	f := newFixture(t, func(c *Config, tc *table.Config) { tc.WindowSteps, c.FutureWait = window, 100*time.Millisecond })
	f.put(cm("a", "x", "1"))
	inner := f.serve().Config.Handler
	ended := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		defer close(ended)
		inner.ServeHTTP(w, req)
	}))
	s.EnableHTTP2 = http2
	s.StartTLS()
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/spaces/a/api/v1/configmaps?watch=1&resourceVersion=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if want := map[bool]int{false: 1, true: 2}[http2]; resp.ProtoMajor != want {
		t.Fatalf("served by HTTP/%d", resp.ProtoMajor)
	}
	// So many are more than fits into the buffers of the connection. Then the test leaves the
	// CPU to the server.
	const full = 300
	deadline := time.After(limit.Wait)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	large := strings.Repeat("a", 100<<10)
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		case <-deadline:
			t.Fatal("the client still holds its watch")
		default:
		}
		if i > full {
			<-pause.C
		}
		switch {
		case !without || i < full:
			f.put(cm("a", "x", large))
		case i == full:
			f.apply(table.Update{Key: key.Space("a").Key()})
		default:
			f.apply() // what else happens
		}
	}
}

func TestPagesAreKeptForAWhile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, func(c *Config, tc *table.Config) { c.PageStates, tc.WindowSteps = 3, 1 })
		defer f.server.Close()
		for i := range 4 {
			f.put(cm("a", fmt.Sprint("x", i), "1"))
		}
		page := func(token string) (*list, error) {
			l, err := f.reader(Space("a"), configMaps).List(t.Context(), &metainternalversion.ListOptions{Limit: 1, Continue: token})
			if err != nil {
				return nil, err
			}
			return l.(*list), nil
		}
		first, err := page("")
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			f.put(cm("a", "x1", "2"))
		}
		f.del(cm("a", "x2", ""))
		<-time.After(time.Minute)
		second, err := page(first.Continue)
		if err != nil || second.ResourceVersion != "4" || versionOf(t, watch.Event{Object: second.Items[0]}) != "2" {
			t.Fatalf("second page: %v %v", second, err)
		}
		<-time.After(3 * time.Minute)
		_, err = page(second.Continue)
		var status apierrors.APIStatus
		if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) || status.Status().Continue == "" {
			t.Fatalf("third page, too late: %v", err)
		}
		third, err := page(status.Status().Continue)
		if err != nil || third.ResourceVersion != "15" || third.Items[0].GetObjectMeta().GetName() != "x3" || third.Continue != "" {
			t.Fatalf("third page, inconsistent: %v %v", third, err)
		}

		// More lists than are kept: the oldest has to go.
		tokens := make([]string, 5)
		for i := range tokens {
			l, err := page("")
			if err != nil {
				t.Fatal(err)
			}
			tokens[i] = l.Continue
			f.put(cm("a", "x3", "2"))
			f.put(cm("a", "x3", "2"))
		}
		for i, token := range tokens {
			if _, err := page(token); (err != nil) != (i < 2) {
				t.Errorf("list %d of %d: %v", i, len(tokens), err)
			}
		}
	})
}

// TestWatchOfOneName subscribes to one key only.
func TestWatchOfOneName(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t)
		defer f.server.Close()
		f.put(cm("a", "x", "1"))
		a := angle{lens: Space("a"), gvr: configMaps, namespace: "default", name: "x"}
		ctx, opts := a.options("1")
		w, err := f.reader(a.lens, a.gvr).Watch(ctx, opts)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if q, _ := f.reader(a.lens, a.gvr).view.query(ctx, "").selecting(opts); !slices.Equal(a.lens.topics(q), []table.Topic{table.KeyTopic(cm("a", "x", "").key())}) {
			t.Errorf("topics %v", a.lens.topics(q))
		}
		f.put(cm("a", "x-y", "1"))
		f.del(cm("a", "x", "1"))
		if e := <-w.ResultChan(); e.Type != watch.Deleted || versionOf(t, e) != "3" {
			t.Errorf("%s at %s", e.Type, versionOf(t, e))
		}
	})
}
