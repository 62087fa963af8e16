package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
)

// eventToWatcher edits one ConfigMap in the space, one edit when the one before has
// arrived, and times each from just before the request until a watch of the same
// space shows it.
func (b *bench) eventToWatcher() error {
	const namespace = "watched"
	if err := b.namespace(namespace); err != nil {
		return err
	}
	if err := b.fill(namespace, 0, 1); err != nil {
		return err
	}
	w, err := b.space.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return err
	}
	defer w.close()
	all, err := b.timeEdits(w, namespace)
	if err != nil {
		return err
	}
	b.latencies("watch", all)
	return nil
}

// watchesPerClient is how many watches share a connection, as the informers of one
// program do.
const watchesPerClient = 10

// openWatches reads the state, and then opens many watches of the ConfigMaps of one
// space.
func (s *state) openWatches() error {
	if err := s.read(); err != nil {
		return err
	}
	b := s.bench
	clients, err := newClients(b.ctx, b.hub.PathConfig("spaces/"+stateSpace(0)), b.size.watches/watchesPerClient)
	if err != nil {
		return err
	}
	s.watches = make([]*watch, b.size.watches)
	group, ctx := errgroup.WithContext(b.ctx)
	group.SetLimit(connecting)
	for i := range s.watches {
		group.Go(func() (err error) {
			// The watch outlives the group.
			s.watches[i], err = clients[i/watchesPerClient].watch(b.ctx, configMaps("default"))
			return errorOf(ctx, err)
		})
	}
	err = group.Wait()
	s.rest = time.Now()
	return err
}

func errorOf(ctx context.Context, err error) error {
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// eventToAll reads what the watches cost, edits an object again and again, and
// times each edit from just before the request until the last watch shows it.
func (s *state) eventToAll() error {
	b := s.bench
	each, err := s.grown(len(s.watches))
	if err != nil {
		return err
	}
	b.report.set("watches.memory", each, "%d watches over %d connections, hub %s", len(s.watches), len(s.watches)/watchesPerClient, megabytes(s.last))
	defer func() {
		for _, w := range s.watches {
			w.close()
		}
	}()
	var all []float64
	for i := range b.size.events {
		value := "event-" + strconv.Itoa(i)
		start := time.Now()
		if err := b.space.patch(b.ctx, configMaps("default")+"/"+nameOf(0), fmt.Sprintf(`{"data":{"value":%q}}`, value)); err != nil {
			return err
		}
		last := start
		for _, w := range s.watches {
			at, err := w.until(b.ctx, value, func(e event) bool { return gjson.GetBytes(e.object, "data.value").String() == value })
			if err != nil {
				return err
			}
			if at.After(last) {
				last = at
			}
		}
		all = append(all, float64(last.Sub(start))/float64(time.Millisecond))
	}
	b.report.add("watches.all", result{value: median(all), samples: all,
		note: fmt.Sprintf("%d events to %d watches, longest %.1f ms", len(all), len(s.watches), slices.Max(all))})
	return nil
}
