package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// gathered are watches whose events go to one place.
type gathered struct {
	clients []*client
	events  chan event
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu  sync.Mutex
	err error // why the first watch ended that was not to
}

func (g *gathered) connections() int { return len(g.clients) }

// watchSlices opens a watch of each slice of a view, across all spaces.
func (h *exportedHub) watchSlices(label string, values []string) (*gathered, error) {
	b := h.bench
	g := &gathered{events: make(chan event, maxEvents)}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(b.ctx)
	for range max(1, len(values)/watchesPerClient) {
		c, err := newClient(b.hub.PathConfig(""))
		if err != nil {
			return g, err
		}
		g.clients = append(g.clients, c)
	}
	var group errgroup.Group
	group.SetLimit(connecting)
	for i, value := range values {
		group.Go(func() error {
			root := route.ExportViewRoot(key.ExportView{Space: key.Space(stateSpace(0)), Name: label, View: true, Value: value}, key.AllSpaces)
			return g.open(ctx, g.clients[i%len(g.clients)], root.Path(exportedPath))
		})
	}
	return g, group.Wait()
}

// open opens a watch of a collection from now on.
func (g *gathered) open(ctx context.Context, c *client, path string) error {
	list, err := c.get(ctx, path+"?limit=1")
	if err != nil {
		return err
	}
	body, err := c.open(ctx, http.MethodGet, path+"?watch=true&resourceVersion="+gjson.GetBytes(list, "metadata.resourceVersion").String(), "", nil)
	if err != nil {
		return err
	}
	g.done.Go(func() {
		defer body.Close()
		if err := follow(body, g.events); ctx.Err() == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.err = errors.Join(g.err, fmt.Errorf("watch of %s: %w", path, err))
		}
	})
	return nil
}

// close ends the watches. It returns why one has ended before.
func (g *gathered) close() error {
	if g == nil {
		return nil
	}
	g.cancel()
	g.done.Wait()
	for _, c := range g.clients {
		c.close()
	}
	return g.err
}

// editSliced edits objects at a steady rate, in round after round, and returns what the hub
// took for each, in µs, and how long each took from when it was due until a watch had it.
func (h *exportedHub) editSliced() (cpu float64, took []float64, err error) {
	b := h.bench
	n := max(1, min(b.size.paced/b.size.rounds, b.size.sliced))
	var each []float64
	for range b.size.rounds {
		before := b.hub.Usage().CPU
		times, err := h.paceSliced(n)
		if err != nil {
			return 0, nil, err
		}
		each = append(each, float64((b.hub.Usage().CPU-before).Microseconds())/float64(n))
		took = append(took, times...)
	}
	return median(each), took, nil
}

// paceSliced makes n edits, each of another object.
func (h *exportedHub) paceSliced(n int) ([]float64, error) {
	b := h.bench
	first := h.edited
	h.edited += n
	seen := newSightings(h.edited)
	seen.left = n
	ctx, cancel := context.WithCancelCause(b.ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- h.watches.see(ctx, seen, lasts(n, b.size.rates[0])+timeLimit) }()
	begin, err := paced(ctx, workersOf(h.writers), n, b.size.rates[0], func(ctx context.Context, c *client, i int) error {
		slice := (first + i) % b.size.sliced
		return c.patch(ctx, h.exportedIn(slice)+"/"+nameOf(slice), editPatch(first+i))
	})
	if err != nil {
		cancel(err)
	}
	return paceTimes(begin, b.size.rates[0], seen.times[first:]), errors.Join(err, <-done)
}

// see notes what the events show until nothing is left to be seen.
func (g *gathered) see(ctx context.Context, s *sightings, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		select {
		case e := <-g.events:
			if s.see(e.object, e.arrived) {
				return nil
			}
		case <-timeout.C:
			g.mu.Lock()
			defer g.mu.Unlock()
			return fmt.Errorf("%d edits have not been seen after %s: %w", s.left, limit, g.err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
