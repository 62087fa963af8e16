package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// reader gets an object and lists its collection again and again, over a connection of
// its own, and notes how long each takes.
type reader struct {
	client       *client
	object, list string
	gets, lists  []time.Duration

	ended chan struct{}
	done  sync.WaitGroup
	err   error
}

// newReader makes a reader of the objects of 2 KB in a space, and connects it.
func newReader(ctx context.Context, space *rest.Config) (*reader, error) {
	c, err := newClient(space)
	if err != nil {
		return nil, err
	}
	r := &reader{client: c, list: configMaps("default"), object: configMaps("default") + "/" + nameOf(0)}
	_, err = c.get(ctx, r.object)
	return r, err
}

// start begins to read; stop ends it.
func (r *reader) start(ctx context.Context) {
	// readPause is between two turns, so that a reader takes little of the machine.
	const readPause = 2 * time.Millisecond
	ended := make(chan struct{})
	r.ended = ended
	r.done.Go(func() {
		for {
			r.err = errors.Join(r.timed(ctx, r.object, &r.gets), r.timed(ctx, r.list, &r.lists))
			select {
			case <-ended:
				return
			case <-time.After(readPause):
			}
			if r.err != nil {
				return
			}
		}
	})
}

func (r *reader) timed(ctx context.Context, path string, all *[]time.Duration) error {
	start := time.Now()
	_, err := r.client.get(ctx, path)
	*all = append(*all, time.Since(start))
	return err
}

// stop waits until the last request is answered: the longest one counts, too.
func (r *reader) stop() error {
	close(r.ended)
	r.done.Wait()
	return r.err
}
