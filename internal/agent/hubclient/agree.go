package hubclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// noWatchdog is the onData of a request without a watchdog.
func noWatchdog() {}

// agreePage is the number of reports that are marked in one transaction.
const agreePage = 500

// compare returns the comparison of the agent's reports with the hub's. onData is called
// whenever data arrives.
func (r *Reporter) compare(ctx context.Context, onData func()) (*comparison, error) {
	mine, err := r.Store.ReportIndex(true)
	if err != nil {
		return nil, err
	}
	c := &comparison{hub: r.Client, call: route.ReportsWalk, mine: mine, onData: onData}
	c.greeted = func(h wire.Hello) (err error) {
		if !h.KeepsAggregated { // otherwise each comparison would find the same differences
			c.mine, err = r.Store.ReportIndex(false)
		}
		return err
	}
	return c, c.run(ctx)
}

// recall loads the hub's reports of the location into a new store, so that completed Jobs
// and Pods do not run again and times are preserved. onData is called whenever data
// arrives.
func (r *Reporter) recall(ctx context.Context, onData func()) error {
	c, err := r.compare(ctx, onData)
	if err == nil {
		err = r.load(ctx, c.theirs, onData)
	}
	if err != nil {
		return fmt.Errorf("recall reports: %w", err)
	}
	return nil
}

// load stores the hub's reports for the keys for which the store has none.
func (r *Reporter) load(ctx context.Context, keys []string, onData func()) error {
	for len(keys) > 0 {
		page := keys[:min(len(keys), wire.MaxFetch)]
		lines, err := r.fetch(ctx, page, onData)
		if err != nil {
			return err
		}
		if err := r.Store.Write(ctx, func(t *store.Tx) error {
			for _, l := range lines {
				if l.Report == nil {
					continue
				}
				if err := t.RestoreReport(l.Key, l.Report); err != nil {
					return err
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

// fetch requests the hub's reports for some keys and returns the first ones, at least one.
func (r *Reporter) fetch(ctx context.Context, keys []string, onData func()) ([]wire.ReportLine, error) {
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
	body := notifyingBody{answer, onData}
	defer body.Close()
	var lines []wire.ReportLine
	for dec := wire.NewDecoder(body); len(lines) < len(keys); {
		var l wire.ReportLine
		if err := dec.Decode(&l); errors.Is(err, io.EOF) && len(lines) > 0 {
			break // the hub bounds the size of a response
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

// agree compares all reports with the hub's, marks those that differ as unsent, and loads those of placed
// objects that the store lacks. The agent then searches the cluster for those objects that are not desired, and
// removes them or reports that they do not exist.
func (r *Reporter) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	c, err := r.compare(ctx, noWatchdog)
	if err != nil {
		return err
	}
	var lacking []string
	differ := slices.Concat(c.theirs, c.ours)
	if err := r.Store.View(func(t *store.Tx) error {
		differ = slices.DeleteFunc(differ, func(k string) bool { return t.Reports.IsUnsent(k) }) // these are sent in any case
		return nil
	}); err != nil {
		return err
	}
	if len(differ) == 0 && r.Store.Meta().ReportsAgreed { // nothing is written, so that this works on a full disk
		return nil
	}
	for page := range slices.Chunk(differ, agreePage) {
		var lack []string
		if err := r.Store.Write(ctx, func(t *store.Tx) error {
			lack = lack[:0]
			for _, k := range page {
				if store.IsPlaced(k) && !t.Reports.Contains(k) && !t.Desired.Yields(k) { // also of an object that is not desired: it may exist
					lack = append(lack, k)
					continue
				}
				if err := t.Reports.MarkUnsent(k); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		lacking = append(lacking, lack...)
	}
	if err := r.load(ctx, lacking, noWatchdog); err != nil {
		return err
	}
	// ReportsAgreed is set only after all keys with nothing but a report are enqueued: from then on a new
	// store is trusted.
	if err := r.review(); err != nil {
		return err
	}
	return r.Store.Write(ctx, func(t *store.Tx) error {
		t.Hub.SetReportsAgreed()
		return nil
	})
}

// review passes to touch all keys for which the store has only a report.
func (r *Reporter) review() error {
	left, err := r.Store.OnlyReported()
	if len(left) > 0 {
		r.touch(left)
	}
	return err
}
