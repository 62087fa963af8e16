package main

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// hubWrites creates one object for C connected locations, for several C, whose simulated agents report at once.
// It counts the revisions of the hub's log, from just before the creation until the counts of the Placement
// report all copies as applied and the log is quiet. It splits them into writes of the object, transactions with
// reports, which the responses of the hub name, writes of the Placement, which a watch returns, and all others.
func (b *bench) hubWrites() error {
	if err := b.fleet.grow(slices.Max(b.size.spread)); err != nil {
		return err
	}
	objects, keys := 0, 0.0
	for _, c := range b.size.spread {
		w, err := b.writesFor(c)
		if err != nil {
			return fmt.Errorf("%d locations: %w", c, err)
		}
		objects, keys = max(objects, w.object), max(keys, float64(w.keys)/float64(c))
		b.report.set(fmt.Sprintf("writes.%d", c), float64(w.total-w.object),
			"%d keys of reports in %d, status of the placement %d, other %d", w.keys, w.reports, w.status, w.total-w.object-w.reports-w.status)
	}
	b.report.set("writes.object", float64(objects), "")
	b.report.set("writes.keys", keys, "")
	return nil
}

// writeCount is what one object on some locations took. All but keys are
// transactions.
type writeCount struct{ total, object, reports, keys, status int }

func (b *bench) writesFor(c int) (n writeCount, err error) {
	namespace := fmt.Sprintf("writes-%d", c)
	if err := b.namespace(namespace); err != nil {
		return n, err
	}
	if err := b.space.create(b.ctx, placementsPath,
		placement(namespace, namespace, "configmaps", named(b.fleet.names(c)...), v1alpha1.ReturnStatusNone)); err != nil {
		return n, err
	}
	if err := b.waitApplied(namespace, 0, 0); err != nil {
		return n, err
	}
	if err := b.calmDown(); err != nil {
		return n, err
	}
	objects, err := b.space.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return n, err
	}
	defer objects.close()
	placements, err := b.space.watch(b.ctx, placementsPath)
	if err != nil {
		return n, err
	}
	defer placements.close()
	before, err := b.revision()
	if err != nil {
		return n, err
	}
	b.fleet.answers.take()
	if err := b.fill(namespace, 1); err != nil {
		return n, err
	}
	if err := b.waitApplied(namespace, 1, c); err != nil {
		return n, err
	}
	if err := b.calmDown(); err != nil {
		return n, err
	}
	after, err := b.revision()
	if err != nil {
		return n, err
	}
	n.total = int(after - before)
	n.object, n.status = len(objects.events), len(placements.events)
	n.keys, n.reports = b.fleet.answers.take()
	return n, nil
}

// fanOut creates one object of 1 KB for many connected locations and edits it, several times. Each time is from
// just before the request until the last simulated agent has read the object from its stream. The agents report
// at once, so the first reports compete with the last deliveries. The next wave waits until the counts of the
// Placement report all copies as applied. Before that, a quarter and a half of the locations get an object, for
// the curve.
func (b *bench) fanOut() error {
	if err := b.fleet.grow(b.size.locations); err != nil {
		return err
	}
	for _, c := range stages(b.size.locations) {
		creates, edits, err := b.fanOutTo(c)
		if err != nil {
			return fmt.Errorf("%d locations: %w", c, err)
		}
		b.report.point(curveFanOutCreate, float64(c), median(creates)*1e3)
		b.report.point(curveFanOutEdit, float64(c), median(edits)*1e3)
		b.report.add("fanout.create", result{value: median(creates), samples: creates, comment: fmt.Sprintf("%d locations, longest %.2f s", c, slices.Max(creates))})
		b.report.add("fanout.edit", result{value: median(edits), samples: edits, comment: fmt.Sprintf("%d locations, longest %.2f s", c, slices.Max(edits))})
	}
	return nil
}

// fanOutTo does that for so many locations.
func (b *bench) fanOutTo(c int) (creates, edits []float64, err error) {
	namespace := fmt.Sprintf("fanout-%d", c)
	if err := b.namespace(namespace); err != nil {
		return nil, nil, err
	}
	if err := b.space.create(b.ctx, placementsPath,
		placement(namespace, namespace, "configmaps", named(b.fleet.names(c)...), v1alpha1.ReturnStatusNone)); err != nil {
		return nil, nil, err
	}
	if err := b.calmDown(); err != nil {
		return nil, nil, err
	}
	for i := range b.size.waves {
		path, value := configMaps(namespace), fmt.Sprintf("wave-%d", i)
		took, err := b.waveOf(c, value, func() error {
			return b.space.create(b.ctx, path, configMap(namespace, nameOf(i), 1<<10, value))
		})
		if err != nil {
			return nil, nil, err
		}
		creates = append(creates, took)
		if err := b.waitApplied(namespace, i+1, c*(i+1)); err != nil {
			return nil, nil, err
		}
		took, err = b.waveOf(c, value+"-edited", func() error {
			return b.space.patch(b.ctx, path+"/"+nameOf(i), fmt.Sprintf(`{"data":{"value":"%s-edited"}}`, value))
		})
		if err != nil {
			return nil, nil, err
		}
		edits = append(edits, took)
		if err := b.waitApplied(namespace, i+1, c*(i+1)); err != nil {
			return nil, nil, err
		}
	}
	return creates, edits, nil
}

// waveOf makes a change and returns the seconds until c agents have an object with
// the value.
func (b *bench) waveOf(c int, value string, change func() error) (float64, error) {
	start := time.Now()
	if err := change(); err != nil {
		return 0, err
	}
	quick := []byte(`"` + value + `"`)
	last, err := b.fleet.wave(c, func(a arrival) bool {
		return bytes.Contains(a.put.Object, quick) && gjson.GetBytes(a.put.Object, "data.value").String() == value
	})
	return last.Sub(start).Seconds(), err
}
