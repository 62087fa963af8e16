package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"orrery.dev/orrery/internal/mapper/store"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// heedless is for what nobody waits for who could lose patience.
func heedless() {}

// agreePage is how many reports are marked, or taken over, in one transaction.
const agreePage = 500

// compare finds out in which reports we differ from the hub. heard is called whenever
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

// recall takes over the hub's reports of the location into a store that is new,
// so that what ran once does not run again and times are kept. heard is called
// whenever something arrives.
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

// load takes over those of the hub's reports that we have none for.
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
			break // the hub ends an answer that has grown large
		} else if err != nil {
			return nil, fmt.Errorf("reports/fetch: %w", err)
		}
		if l.Key != keys[len(lines)] {
			return nil, fmt.Errorf("reports/fetch: the answer has %q, which is not next", l.Key)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

// agree compares all reports with the hub's, marks those that differ to be sent,
// and takes over those of wanted objects of which nothing has been reported yet.
func (r *Reporter) agree(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	c, err := r.compare(ctx, heedless)
	if err != nil {
		return err
	}
	var lacking []string
	differ := slices.Concat(c.theirs, c.ours)
	for page := range slices.Chunk(differ, agreePage) {
		var lack []string
		if err := r.Store.Write(ctx, func(t *store.Tx) error {
			lack = lack[:0]
			for _, k := range page {
				if t.HasWant(k) && !t.HasReport(k) {
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
	if err := r.Store.Write(ctx, func(t *store.Tx) error {
		t.ReportsAgreed()
		return nil
	}); err != nil {
		return err
	}
	return r.review()
}

// review has those keys looked at of which nothing but a report is left.
func (r *Reporter) review() error {
	left, err := r.Store.OnlyReported()
	if len(left) == 0 {
		return err
	}
	all := make([]store.Touched, 0, len(left))
	for _, o := range left {
		all = append(all, store.Touched{Object: o})
	}
	r.left(all)
	return err
}
