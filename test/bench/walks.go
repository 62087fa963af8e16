package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// sharedNamespace has the objects that all comparing locations desire.
const sharedNamespace = "shared"

// walks is a hub of its own, at which locations without a session compare all that
// they are to have, as their agents do that have nothing. A fiftieth of the objects is
// for all of them and the rest for one each: no two have the same, so that the hub can
// share nothing of what it collects.
type walks struct {
	*bench // with that hub in place of the run's
	// whole leads to the root path of the hub.
	whole       *client
	walkers     []*walker
	shared, own int
}

// walker is a location that walks, over a connection of its own.
type walker struct {
	join  wire.Join
	hub   *simulated
	plain *client
	pages []page
	// revision is the revision that the pages are of.
	revision int64
}

// page is one request of a comparison, and the response of the hub.
type page struct{ request, response []byte }

// walksAtOnce lets all locations compare at once. In alternating rounds they get the same bytes over as many
// connections from a server that only sends them. The work of an agent with the responses is left out: agents
// run on other machines.
//
// The bar allows the work for every byte that is sent, to find, hash and encode it, and no more. If one
// comparison waited for another, or if each page collected its content again, the time would be a multiple of
// it.
func (b *bench) walksAtOnce() error {
	own, err := b.startOwn(stateSpace(0))
	if err != nil {
		return err
	}
	defer own.hub.Kill()
	w := &walks{bench: own, shared: b.size.walked / 50}
	w.own = (b.size.walked - w.shared) / b.size.walkers
	start := time.Now()
	if err := w.furnish(); err != nil {
		return err
	}
	b.t.Logf("%d locations furnished in %s", len(w.walkers), time.Since(start).Round(time.Second))
	server := w.startPlain()
	defer server.Close()
	defer server.CloseClientConnections()
	for range 5 {
		if err := w.learn(server); err != nil {
			return err
		}
		if err := w.measure(); !errors.Is(err, errMoved) {
			return err
		}
		b.t.Logf("the log moved while they walked, %s after the beginning: once more", time.Since(start).Round(time.Second))
	}
	return errMoved
}

// errMoved is returned if the pages are not all of one revision, or the log has moved, such
// as after a write about a location that has just joined: the hub collects anew for each.
var errMoved = errors.New("the log moved")

// perSpace is how many locations have their objects in the same space.
const perSpace = 20

// furnish makes the locations, and then for each a Placement in a space, of a namespace
// with its own objects. The first space has those for all, too. Then they join.
func (w *walks) furnish() (err error) {
	if w.whole, err = newClient(w.hub.PathConfig("")); err != nil {
		return err
	}
	if err := w.makeSpaces((w.size.walkers + perSpace - 1) / perSpace); err != nil {
		return err
	}
	w.walkers = make([]*walker, w.size.walkers)
	workers := make([]struct{}, w.size.apiClients)
	if err := share(w.ctx, workers, len(w.walkers), func(ctx context.Context, _ struct{}, i int) error {
		join, err := addLocation(ctx, w.root, simulatedName(i))
		w.walkers[i] = &walker{join: join}
		return err
	}); err != nil {
		return err
	}
	all := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{}}
	if err := w.furnishOne(w.ctx, stateSpace(0), sharedNamespace, all, w.shared); err != nil {
		return err
	}
	if err := share(w.ctx, workers, len(w.walkers), func(ctx context.Context, _ struct{}, i int) error {
		return w.furnishOne(ctx, stateSpace(i/perSpace), simulatedName(i), named(simulatedName(i)), w.own)
	}); err != nil {
		return err
	}
	return w.join()
}

// furnishOne makes a namespace with n objects in a space, all placed where selected says.
func (w *walks) furnishOne(ctx context.Context, space, namespace string, selected v1alpha1.LocationSelector, n int) error {
	in := "/spaces/" + space
	if err := w.whole.create(ctx, in+"/api/v1/namespaces", namespaceOf(namespace)); err != nil {
		return err
	}
	for i := range n {
		if err := w.whole.create(ctx, in+configMaps(namespace), configMap(namespace, nameOf(i), 0, "wanted")); err != nil {
			return err
		}
	}
	return w.whole.create(ctx, in+placementsPath, placement(namespace, namespace, "configmaps", selected, v1alpha1.ReturnStatusNone))
}

// startPlain starts a server that answers with what the hub has answered: the page of
// the location that the path names.
func (w *walks) startPlain() *httptest.Server {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		var i, n int
		if _, err := fmt.Sscanf(strings.TrimPrefix(r.URL.Path, "/"), "%d/%d", &i, &n); err != nil {
			http.NotFound(answer, r)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			_, _ = answer.Write(w.walkers[i].pages[n].response) // a client that is gone fails by itself
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	return server
}

// join has each location join, of which there are writes.
func (w *walks) join() error {
	if err := share(w.ctx, make([]struct{}, connecting), len(w.walkers), func(_ context.Context, _ struct{}, i int) error {
		agent, err := protocol.NewClient(w.walkers[i].join)
		if err != nil {
			return err
		}
		w.walkers[i].hub = newSimulated(agent, nil, nil)
		return nil
	}); err != nil {
		return err
	}
	return w.calmDown()
}

// learn lets each location compare once, which records its requests and responses, and opens the connections.
func (w *walks) learn(plain *httptest.Server) error {
	return share(w.ctx, make([]struct{}, connecting), len(w.walkers), func(ctx context.Context, _ struct{}, i int) error {
		k := w.walkers[i]
		leaves, err := k.walk(ctx)
		if err != nil {
			return err
		}
		if leaves != w.own+w.shared {
			return fmt.Errorf("a walk of %q found %d objects, want %d", k.join.Location, leaves, w.own+w.shared)
		}
		k.plain = &client{base: fmt.Sprintf("%s/%d/", plain.URL, i), http: &http.Client{
			Transport: plain.Client().Transport.(*http.Transport).Clone(),
		}}
		return k.fetch(ctx, k.fromPlain)
	})
}

// walk is the walk of an agent that has nothing, without the fetches that follow. It
// keeps the pages and their revision.
func (k *walker) walk(ctx context.Context) (leaves int, err error) {
	k.pages, k.revision = nil, 0
	mine, err := wire.NewIndex(nil)
	if err != nil {
		return 0, err
	}
	for next := []wire.Span{mine.Span("", "")}; len(next) > 0; {
		n := min(len(next), wire.MaxSpans)
		p := page{request: requestBody(wire.Walk{Revision: k.revision}, next[:n])}
		body, err := k.hub.Do(ctx, http.MethodPost, route.Walk, bytes.NewReader(p.request))
		if err != nil {
			return 0, err
		}
		p.response, err = io.ReadAll(body)
		if err := errors.Join(err, body.Close()); err != nil {
			return 0, err
		}
		k.pages, next = append(k.pages, p), next[n:]
		for frames := wire.NewDecoder(bytes.NewReader(p.response)); ; {
			var f wire.Frame
			if err := frames.Decode(&f); err != nil {
				return 0, fmt.Errorf("walk: %w", err)
			}
			if f.Hello != nil {
				k.revision = f.Hello.Revision
			}
			if f.RangeDifference != nil {
				d := mine.Compare(*f.RangeDifference)
				next, leaves = append(next, d.Next...), leaves+len(d.Theirs)
			}
			if f.Mark != nil {
				break
			}
		}
	}
	return leaves, nil
}

// requestBody is the body of a request for a page.
func requestBody(walk wire.Walk, spans []wire.Span) []byte {
	lines := []any{walk}
	for i := range spans {
		lines = append(lines, spans[i])
	}
	return protocol.Lines(lines...)
}

func (k *walker) fromHub(ctx context.Context, i int) (io.ReadCloser, error) {
	return k.hub.Do(ctx, http.MethodPost, route.Walk, bytes.NewReader(k.pages[i].request))
}

func (k *walker) fromPlain(ctx context.Context, i int) (io.ReadCloser, error) {
	return k.plain.open(ctx, http.MethodPost, fmt.Sprint(i), jsonBody, k.pages[i].request)
}

// fetch asks for all pages again, one after another.
func (k *walker) fetch(ctx context.Context, from func(context.Context, int) (io.ReadCloser, error)) error {
	for i := range k.pages {
		body, err := from(ctx, i)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, body)
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
		// A hub that lets an agent wait sends empty lines.
		if n < int64(len(k.pages[i].response)) {
			return fmt.Errorf("page %d of %q has %d bytes, had %d", i, k.join.Location, n, len(k.pages[i].response))
		}
	}
	return nil
}

func (w *walks) measure() error {
	before, err := w.revision()
	if err != nil {
		return err
	}
	for _, k := range w.walkers {
		if k.revision != w.walkers[0].revision {
			return errMoved
		}
	}
	var ratios, took, plain, alone []float64
	for range w.size.rounds {
		hub, err := w.atOnce(func(k *walker) error { return k.fetch(w.ctx, k.fromHub) })
		if err != nil {
			return err
		}
		bytes, err := w.atOnce(func(k *walker) error { return k.fetch(w.ctx, k.fromPlain) })
		if err != nil {
			return err
		}
		start := time.Now()
		if err := w.walkers[0].fetch(w.ctx, w.walkers[0].fromHub); err != nil {
			return err
		}
		alone = append(alone, time.Since(start).Seconds())
		ratios, took, plain = append(ratios, hub/bytes), append(took, hub), append(plain, bytes)
	}
	after, err := w.revision()
	if err != nil {
		return err
	}
	if before != after {
		return errMoved
	}
	size := 0
	for _, k := range w.walkers {
		for _, p := range k.pages {
			size += len(p.response)
		}
	}
	w.report.add("walks.time", result{value: median(ratios), samples: ratios, comment: fmt.Sprintf(
		"%.0f MB, %d of %d objects each: %.2f s, longest %.2f s, the bytes %.2f s; one alone %.1f ms",
		float64(size)/1e6, w.own+w.shared, w.size.walked, median(took), slices.Max(took), median(plain), median(alone)*1e3)})
	return nil
}

// atOnce has all walkers do something and returns the seconds until the last is done.
func (w *walks) atOnce(do func(*walker) error) (float64, error) {
	var group errgroup.Group
	start := time.Now()
	for _, k := range w.walkers {
		group.Go(func() error { return do(k) })
	}
	err := group.Wait()
	return time.Since(start).Seconds(), err
}
