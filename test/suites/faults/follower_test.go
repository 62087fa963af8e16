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

// follower is a stock informer that follows a resource of the space through the balancer. It
// counts what it asks for and is told.
type follower struct {
	h        *hubs
	what     dynamic.ResourceInterface
	informer cache.SharedIndexInformer
	// watches are those that were answered, but for those that follow one that has lasted as long as it
	// was to.
	watches atomic.Int64

	mu sync.Mutex
	// abrupt says that a hub stops now that may answer a watch and end it at once, after which an
	// informer asks for all there is, and refused that a hub of before refused a watch while it loaded
	// its log, without saying that one should try again; excused counts how often the informer has asked so.
	abrupt, refused bool
	excused         int
	// asked are its requests and how they ended, in order; unasked are those for all there is that
	// nothing excuses, each with what came before it; since is when the last was answered.
	asked, unasked []string
	since          time.Time
	// lasts is until when the last watch was to last.
	lasts time.Time
	// added counts by name; twice are revisions that were told twice.
	added   map[string]int
	deleted []string
	twice   []string
}

// informer follows a resource until the test ends, and returns once all is there.
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
			return fmt.Errorf("the informer of %s has not all there is", resource.Resource)
		}
		return nil
	})
	return f
}

// counted counts a follower's requests.
type counted struct {
	http.RoundTripper
	by *follower
}

// RoundTrip implements http.RoundTripper.
func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	resp, err := c.RoundTripper.RoundTrip(r)
	query := r.URL.Query()
	watches := query.Get("watch") == "true" && query.Get("sendInitialEvents") != "true"
	c.by.note(r, watches, resp, err)
	if watches && err == nil && resp.StatusCode == http.StatusOK && !c.by.lasted(query.Get("timeoutSeconds")) {
		c.by.watches.Add(1)
	}
	if err == nil {
		resp.Body = &told{ReadCloser: resp.Body, by: c.by, began: began}
	}
	return resp, err
}

// told is the body of an answer; it notes how it ended.
type told struct {
	io.ReadCloser
	by    *follower
	began time.Time
	bytes int
	over  bool
}

// Read implements io.Reader.
func (b *told) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += n
	if err != nil && !b.over {
		b.over = true
		b.by.ended(time.Since(b.began), b.bytes, err)
	}
	return n, err
}

func (f *follower) note(r *http.Request, watches bool, resp *http.Response, err error) {
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
	case len(f.asked) > 0:
		f.unasked = append(f.unasked, strings.Join(f.asked[max(0, len(f.asked)-3):], "; ")+"; "+now)
	}
	if err == nil && resp.StatusCode == http.StatusOK {
		f.refused = false
	}
	f.since = time.Now()
	f.asked = append(f.asked, now)
}

// ended notes that an answer ended after so long and so many bytes.
func (f *follower) ended(after time.Duration, bytes int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf("%s ended after %s, %d bytes: %v", time.Now().Format(time.TimeOnly), after, bytes, err))
}

// lasted says whether the watch before one that begins has lasted as long as it was to.
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

// shortWatch is for how long a watch that tells nothing has to stand: informers take one that
// ends sooner for failed, and ask for all there is.
const shortWatch = time.Second

// stands waits until the informer's watch has stood for so long.
//
// abrupt is what the stop may be that comes next.
func (f *follower) stands(abrupt bool) {
	f.h.t.Helper()
	env.Eventually(f.h.t, soon, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		if since := time.Since(f.since); since <= shortWatch {
			return fmt.Errorf("the watch stands for %s", since)
		}
		f.abrupt = abrupt
		return nil
	})
}

// holds checks that the informer has all there is, has heard nothing twice and of no deletion,
// and has asked for all only once, besides where that is excused; each of so many restarts of a hub
// may have ended its watch.
func (f *follower) holds(restarts int) {
	t := f.h.t
	t.Helper()
	f.stands(false)
	env.Eventually(t, soon, func() error {
		list, err := f.what.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, is := range list.Items {
			has, there, err := f.informer.GetStore().GetByKey(namespace + "/" + is.GetName())
			if err != nil {
				return err
			}
			if !there || has.(*unstructured.Unstructured).GetResourceVersion() != is.GetResourceVersion() {
				return fmt.Errorf("the informer lacks %s at revision %s", is.GetName(), is.GetResourceVersion())
			}
		}
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("the informer has asked %d times more for all there is, which is excused", f.excused)
	for name, n := range f.added {
		if n != 1 {
			t.Errorf("%s was added %d times", name, n)
		}
	}
	if len(f.twice)+len(f.deleted) > 0 {
		t.Errorf("told twice: %q, deleted: %q", f.twice, f.deleted)
	}
	for _, u := range f.unasked {
		t.Errorf("the informer has asked again for all there is: %s", u)
	}
	if n, most := int(f.watches.Load()), 1+restarts; n > most {
		t.Errorf("the informer has watched %d times, want at most %d:\n%s", n, most, strings.Join(f.asked, "\n"))
	}
}
