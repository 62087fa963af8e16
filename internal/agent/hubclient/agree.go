package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// heedless is the heard of a call that no watchdog watches.
func heedless() {}

// agreePage is how many reports are marked in one transaction.
const agreePage = 500

// compare finds out which reports differ from the hub's. heard is called whenever
// something arrives.
func (r *Reporter) compare(ctx context.Context, heard func()) (*comparison, error) {
	mine, err := r.Store.ReportIndex()
	if err != nil {
		return nil, err
	}
	c := &comparison{
		hub: r.Client, call: route.ReportsWalk, mine: mine,
		heard: heard, greeted: func(wire.Hello) error { return nil },
	}
	return c, c.run(ctx)
}

// recall loads the hub's reports of the location into a new store, so that completed Jobs
// and Pods do not run again and times are kept. heard is called whenever something
// arrives.
func (r *Reporter) recall(ctx context.Context, heard func()) error {
	c, err := r.compare(ctx, heard)
	if err == nil {
		err = r.load(ctx, c.theirs, heard)
	}
	if err != nil {
		return fmt.Errorf("recall reports: %w", err)
	}
	return nil
}

// load stores the hub's reports of the keys of which the store has none.
func (r *Reporter) load(ctx context.Context, keys []string, heard func()) error {
	for len(keys) > 0 {
		page := keys[:min(len(keys), wire.MaxFetch)]
		lines, err := r.fetch(ctx, page, heard)
		if err != nil {
			return err
		}
		if err := r.Store.Write(ctx, func(t *store.Tx) error {
			for _, l := range lines {
				if l.Report == nil {
					continue
				}
				if err := t.Recall(l.Key, l.Report); err != nil {
					return err
				}
				if _, resource, _, ok := key.Split(key.OfPath(l.Key)); ok && l.Report.Aggregated && store.IsPlaced(l.Key) {
					store.SetAggregated(t, resource, true) // until a list shows the kind
				}
			}
			return nil
		}); err != nil {
			return err
		}
		keys = keys[len(lines):]
	}
	return nil
}

// fetch asks for the hub's reports of some keys and returns the first of them,
// at least one.
func (r *Reporter) fetch(ctx context.Context, keys []string, heard func()) ([]wire.ReportLine, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	answer, err := r.Client.send(ctx, route.ReportsFetch, func(enc *wire.Encoder) error {
		for _, k := range keys {
			if err := enc.Encode(wire.Fetch{Key: k}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	body := heardBody{answer, heard}
	defer body.Close()
	var lines []wire.ReportLine
	for dec := wire.NewDecoder(body); len(lines) < len(keys); {
		var l wire.ReportLine
		if err := dec.Decode(&l); errors.Is(err, io.EOF) && len(lines) > 0 {
			break // the hub bounds the size of an answer
		} else if err != nil {
			return nil, fmt.Errorf("reports/fetch: %w", err)
		}
		if l.Key != keys[len(lines)] {
			return nil, fmt.Errorf("reports/fetch: the answer has %q out of order", l.Key)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// agree compares all reports with the hub's, marks those that differ to be sent, and loads those of placed
// objects that the store lacks. An object that is not desired is then looked for, and removed or reported as gone.
func (r *Reporter) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	c, err := r.compare(ctx, heedless)
	if err != nil {
		return err
	}
	var lacking []string
	differ := slices.Concat(c.theirs, c.ours)
	if err := r.Store.View(func(t *store.Tx) error {
		differ = slices.DeleteFunc(differ, func(k string) bool { return store.IsUnsent(t, k) }) // they are sent anyway
		return nil
	}); err != nil {
		return err
	}
	if len(differ) == 0 && r.Store.Meta().ReportsAgreed { // nothing is written, so that a full disk does not matter
		return nil
	}
	for page := range slices.Chunk(differ, agreePage) {
		var lack []string
		if err := r.Store.Write(ctx, func(t *store.Tx) error {
			lack = lack[:0]
			for _, k := range page {
				if store.IsPlaced(k) && !t.HasReport(k) && !t.Yields(k) { // also of an object that is not desired: it may exist
					lack = append(lack, k)
					continue
				}
				if err := t.MarkUnsent(k); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		lacking = append(lacking, lack...)
	}
	if err := r.load(ctx, lacking, heedless); err != nil {
		return err
	}
	// The reports agree only when all that they show of is known to be looked at: a new store would be
	// trusted without it.
	if err := r.review(); err != nil {
		return err
	}
	return r.Store.Write(ctx, func(t *store.Tx) error {
		t.ReportsAgreed()
		return nil
	})
}

// review tells touch of all keys of which only a report is left.
func (r *Reporter) review() error {
	left, err := r.Store.OnlyReported()
	if len(left) > 0 {
		r.touch(left)
	}
	return err
}
