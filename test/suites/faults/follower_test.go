package faults

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// follower is a stock informer that watches a resource of the space through the load balancer, with
// a record of its requests and of the events that it receives.
type follower struct {
	h        *hubs
	what     dynamic.ResourceInterface
	informer cache.SharedIndexInformer
	// watches counts the accepted watches, without those that replace one that lasted until its timeout.
	watches atomic.Int64

	mu sync.Mutex
	// abrupt: a hub is stopping now, and may accept a watch and end it immediately, after which an
	// informer lists everything again. refused: a hub of an older version rejected a watch while it
	// loaded its log, without a Retry-After header. excused counts the lists that either explains.
	abrupt, refused bool
	excused         int
	// requests are the requests and how they ended, in order. unexplained are the lists that nothing
	// excuses, each with the requests before it. since is the time of the last response.
	requests, unexplained []string
	since                 time.Time
	// lasts is the time at which the last watch reaches its timeout.
	lasts time.Time
	// added counts the additions by name. twice are the objects of updates without a new resource version.
	added   map[string]int
	deleted []string
	twice   []string
}

// informer starts an informer for a resource, which runs until the test ends, and returns once it
// has synced.
func (h *hubs) informer(resource schema.GroupVersionResource) *follower {
	h.t.Helper()
	f := &follower{h: h, what: world.Dynamic(h.t, h.balanced).Resource(resource).Namespace(namespace), added: map[string]int{}}
	config := rest.CopyConfig(h.balanced)
	config.Wrap(func(to http.RoundTripper) http.RoundTripper { return counted{to, f} })
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		h.t.Fatal(err)
	}
	f.informer = dynamicinformer.NewFilteredDynamicInformer(client, resource, namespace, 0, cache.Indexers{}, nil).Informer()
	if _, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: f.add, UpdateFunc: f.update, DeleteFunc: f.delete}); err != nil {
		h.t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { f.informer.RunWithContext(h.t.Context()) })
	h.t.Cleanup(running.Wait)
	env.Eventually(h.t, soon, func() error {
		if !f.informer.HasSynced() {
			return fmt.Errorf("the informer of %s has not synced", resource.Resource)
		}
		return nil
	})
	return f
}

// counted counts a follower's requests.
type counted struct {
	http.RoundTripper
	follower *follower
}

// RoundTrip implements http.RoundTripper.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := c.RoundTripper.RoundTrip(r)
	query := r.URL.Query()
	watches := query.Get("watch") == "true" && query.Get("sendInitialEvents") != "true"
	c.follower.record(r, watches, resp, err)
	if watches && err == nil && resp.StatusCode == http.StatusOK && !c.follower.lasted(query.Get("timeoutSeconds")) {
		c.follower.watches.Add(1)
	}
	if err == nil {
		resp.Body = &trackedBody{ReadCloser: resp.Body, follower: c.follower, began: began}
	}
	return resp, err
}

// trackedBody is a response body that records how the response ended.
type trackedBody struct {
	io.ReadCloser
	follower *follower
	began    time.Time
	bytes    int
	over     bool
}

// Read implements io.Reader.
func (b *trackedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += n
	if err != nil && !b.over {
		b.over = true
		b.follower.ended(time.Since(b.began), b.bytes, err)
	}
	return n, err
}

func (f *follower) record(r *http.Request, watches bool, resp *http.Response, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	status := ""
	if err == nil {
		status = resp.Status
		f.refused = f.refused || resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == ""
	}
	now := fmt.Sprintf("%s %s: %s %v", time.Now().Format(time.TimeOnly), r.URL.RawQuery, status, err)
	switch {
	case watches:
	case f.abrupt, f.refused:
		f.excused++
	case len(f.requests) > 0:
		f.unexplained = append(f.unexplained, strings.Join(f.requests[max(0, len(f.requests)-3):], "; ")+"; "+now)
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		f.refused = false
	}
	f.since = time.Now()
	f.requests = append(f.requests, now)
}

// ended records that a response ended, with its duration and number of bytes.
func (f *follower) ended(after time.Duration, bytes int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, fmt.Sprintf("%s ended after %s, %d bytes: %v", time.Now().Format(time.TimeOnly), after, bytes, err))
}

// lasted reports whether the previous watch lasted until its timeout. The next watch has a timeout
// of so many seconds.
func (f *follower) lasted(seconds string) (before bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before = !f.lasts.IsZero() && !time.Now().Before(f.lasts)
	lasts, err := time.ParseDuration(seconds + "s")
	if f.lasts = time.Now().Add(lasts); err != nil {
		f.lasts = time.Time{}
	}
	return before
}

func (f *follower) add(o any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.added[o.(*unstructured.Unstructured).GetName()]++
}

func (f *follower) update(old, now any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u := now.(*unstructured.Unstructured); u.GetResourceVersion() == old.(*unstructured.Unstructured).GetResourceVersion() && f.excused == 0 {
		f.twice = append(f.twice, u.GetName())
	}
}

func (f *follower) delete(o any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleted = append(f.deleted, fmt.Sprint(o))
}

// shortWatch is the minimum duration of a watch without events: informers treat one that ends
// sooner as failed, and list everything again.
const shortWatch = time.Second

// waitForWatch waits until the watch of the informer has been open for shortWatch. abrupt reports
// whether the next stop of a hub may end a watch immediately.
func (f *follower) waitForWatch(abrupt bool) {
	f.h.t.Helper()
	env.Eventually(f.h.t, soon, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if since := time.Since(f.since); since <= shortWatch {
			return fmt.Errorf("the watch has been open only for %s", since)
		}
		f.abrupt = abrupt
		return nil
	})
}

// verify checks that the cache of the informer is complete, that it received no event twice and no
// deletion, and that it listed everything only once, apart from excused lists. Each of the restarts
// of a hub may have ended its watch.
func (f *follower) verify(restarts int) {
	t := f.h.t
	t.Helper()
	f.waitForWatch(false)
	env.Eventually(t, soon, func() error {
		list, err := f.what.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, is := range list.Items {
			cached, found, err := f.informer.GetStore().GetByKey(namespace + "/" + is.GetName())
			if err != nil {
				return err
			}
			if !found || cached.(*unstructured.Unstructured).GetResourceVersion() != is.GetResourceVersion() {
				return fmt.Errorf("the informer lacks %s at revision %s", is.GetName(), is.GetResourceVersion())
			}
		}
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("the informer listed everything %d more times, which is excused", f.excused)
	for name, n := range f.added {
		if n != 1 {
			t.Errorf("%s was added %d times", name, n)
		}
	}
	if len(f.twice)+len(f.deleted) > 0 {
		t.Errorf("events received twice: %q, deletions: %q", f.twice, f.deleted)
	}
	for _, u := range f.unexplained {
		t.Errorf("the informer has asked again for all there is: %s", u)
	}
	if n, most := int(f.watches.Load()), 1+restarts; n > most {
		t.Errorf("the informer has watched %d times, want at most %d:\n%s", n, most, strings.Join(f.requests, "\n"))
	}
}
