package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
)

// eventToWatcher edits one ConfigMap in the space, one edit when the one before has
// arrived, and times each from just before the request until a watch of the same
// space shows it.
func (b *bench) eventToWatcher() error {
	const namespace = "watched"
	if err := b.namespace(namespace); err != nil {
		return err
	}
	if err := b.fill(namespace, 1); err != nil {
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
// space, and as many at the hub without objects, whose memory shows what they cost.
func (s *state) openWatches() error {
	if err := s.read(); err != nil {
		return err
	}
	b := s.bench
	s.unwatched = b.idle.hub.Usage().RSSAnon
	var err error
	if s.watches, err = b.openWatches(b.hub.PathConfig("spaces/" + stateSpace(0))); err != nil {
		return err
	}
	s.idle, err = b.openWatches(b.idle.hub.PathConfig("spaces/root"))
	s.rest = time.Now()
	return err
}

// openWatches opens many watches of the ConfigMaps of a space.
func (b *bench) openWatches(space *rest.Config) ([]*watch, error) {
	clients, err := newClients(b.ctx, space, b.size.watches/watchesPerClient)
	if err != nil {
		return nil, err
	}
	all := make([]*watch, b.size.watches)
	group, ctx := errgroup.WithContext(b.ctx)
	group.SetLimit(connecting)
	for i := range all {
		group.Go(func() (err error) {
			// The watch outlives the group.
			all[i], err = clients[i/watchesPerClient].watch(b.ctx, configMaps("default"))
			return errorOf(ctx, err)
		})
	}
	if err := group.Wait(); err != nil {
		closeAll(all)
		return nil, err
	}
	return all, nil
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
	if s.idle == nil {
		return errors.New("the watches are not open")
	}
	defer closeAll(s.watches)
	if err := s.rested(); err != nil {
		return err
	}
	watched := b.idle.hub.Usage().RSSAnon
	closeAll(s.idle)
	b.report.set("watches.memory", float64(watched-s.unwatched)/1e3/float64(len(s.idle)),
		"%d watches over %d connections of a hub without objects, %s", len(s.idle), len(s.idle)/watchesPerClient, megabytes(watched))
	var all []float64
	for i := range b.size.events {
		value := "event-" + strconv.Itoa(i)
		start := time.Now()
		if err := b.space.patch(b.ctx, configMaps("default")+"/"+nameOf(0), fmt.Sprintf(`{"data":{"value":%q}}`, value)); err != nil {
			return err
		}
		last := start
		for _, w := range s.watches {
			arrived, err := w.until(b.ctx, value, func(e event) bool { return gjson.GetBytes(e.object, "data.value").String() == value })
			if err != nil {
				return err
			}
			if arrived.After(last) {
				last = arrived
			}
		}
		all = append(all, float64(last.Sub(start))/float64(time.Millisecond))
	}
	b.report.add("watches.all", result{value: median(all), samples: all,
		comment: fmt.Sprintf("%d events to %d watches, longest %.1f ms", len(all), len(s.watches), slices.Max(all))})
	return nil
}

func closeAll(watches []*watch) {
	for _, w := range watches {
		if w != nil {
			w.close()
		}
	}
}
