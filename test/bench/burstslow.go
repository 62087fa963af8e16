package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
)

const (
	// burstSites are the last locations: one that gets much, one that reads slowly, and one
	// that does not read.
	burstSites = 3
	// slowRate is how many bytes a second a slow reader reads.
	slowRate = 4 << 20
	// largeObject is the size of an object that they get.
	largeObject = 64 << 10
	// slowNamespace has those.
	slowNamespace = "slow"
)

// slowReaders makes large objects that three locations get: one that reads as fast as it
// can, one that reads slowly, and one that does not read for as long as that takes. So do
// three watches of them. Those that read have to see all, and are not cut off.
func (s *burstHub) slowReaders() error {
	b, n := s.bench, s.bench.size.burst.large
	in := "/spaces/" + stateSpace(s.burstSite())
	if err := s.whole.create(b.ctx, in+"/api/v1/namespaces", namespaceOf(slowNamespace)); err != nil {
		return err
	}
	slow, deaf := s.burstSite()-1, s.burstSite()-2
	if err := s.whole.create(b.ctx, in+placementsPath, placement(slowNamespace, slowNamespace, "configmaps",
		named(simulatedName(s.burstSite()), simulatedName(slow), simulatedName(deaf)), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	watches, err := s.watchSlowly(in + configMaps(slowNamespace))
	if err != nil {
		return err
	}
	defer watches.close()
	s.all[slow].rate.Store(slowRate)
	s.all[deaf].rate.Store(readsNothing)
	cut := s.all[deaf].cut.Load()
	if err := s.burst("slow", func() (time.Time, string, error) {
		have := func(site int) *want {
			return s.lookout.want(n, func(a arrival) bool {
				return a.location == simulatedName(site) && placedFrom(a, stateSpace(s.burstSite()), slowNamespace)
			})
		}
		fast, late := have(s.burstSite()), have(slow)
		start := time.Now()
		if err := share(b.ctx, s.writers, n, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, in+configMaps(slowNamespace), configMap(slowNamespace, "large-"+nameOf(i), largeObject, "wanted"))
		}); err != nil {
			return time.Time{}, "", err
		}
		first, err := s.lookout.last(s.ctx, fast)
		if err != nil {
			return first, "", fmt.Errorf("the location that reads: %w", err)
		}
		last, err := s.lookout.last(s.ctx, late)
		if err != nil {
			return last, "", fmt.Errorf("the location that reads slowly: %w", err)
		}
		comment := fmt.Sprintf("%d objects of 64 KB at the location that reads %d MB a second; at one that reads as fast as it can after %.2f s", n, slowRate>>20, first.Sub(start).Seconds())
		return last, comment, watches.sawAll(b.ctx, n)
	}); err != nil {
		return err
	}
	s.all[slow].rate.Store(0)
	s.all[deaf].rate.Store(0)
	if err := s.settledBurst(in, slowNamespace, n, n*burstSites); err != nil {
		return fmt.Errorf("the location that did not read: %w", err)
	}
	s.cutRightly = s.all[deaf].cut.Load() - cut
	return nil
}

// slowWatches are a watch that is read as fast as it comes, one that is read slowly, and one
// that is not read.
type slowWatches struct {
	fast, slow *watch
	clients    []*client
	unread     io.Closer
}

func (s *burstHub) watchSlowly(path string) (w *slowWatches, err error) {
	w = &slowWatches{}
	for range 3 { // each over a connection of its own
		c, err := newClient(s.bench.hub.PathConfig(""))
		if err != nil {
			return nil, err
		}
		w.clients = append(w.clients, c)
	}
	if w.fast, err = w.clients[0].watch(s.bench.ctx, path); err != nil {
		return nil, err
	}
	if w.slow, err = w.clients[1].watchThrough(s.bench.ctx, path, func(r io.Reader) io.Reader { return &pacedReader{r, slowRate} }); err != nil {
		return nil, err
	}
	w.unread, err = w.clients[2].open(s.bench.ctx, http.MethodGet, path+"?watch=true", "", nil)
	return w, err
}

// sawAll waits until those that are read have seen n objects.
func (w *slowWatches) sawAll(ctx context.Context, n int) error {
	_, err := w.fast.count(ctx, "ADDED", n)
	_, slow := w.slow.count(ctx, "ADDED", n)
	return errors.Join(err, slow)
}

func (w *slowWatches) close() {
	w.fast.close()
	w.slow.close()
	_ = w.unread.Close() // no client reads it
	for _, c := range w.clients {
		c.close()
	}
}

// pacedReader reads so many bytes a second.
type pacedReader struct {
	io.Reader
	rate int64
}

// Read implements io.Reader.
func (p *pacedReader) Read(b []byte) (int, error) {
	const most = 32 << 10
	n, err := p.Reader.Read(b[:min(len(b), most)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(p.rate)) //nolint:forbidigo // it is its pace
	return n, err
}
