package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// bursts makes many changes at once at the full hub. For each, it checks whether an edit for one location takes
// as long after as before, and the maximum of the hub's memory. No reader may lose its connection. At the end it
// reads the memory that stays in use.
func (b *bench) bursts() error {
	f, err := b.filledFleet()
	if err != nil {
		return err
	}
	s := &burstHub{fullHub: f, lookout: startLookout(f.ctx, f.arrivals)}
	defer s.lookout.end()
	if err := b.full.bench.calmDown(); err != nil {
		return err
	}
	if s.before, err = f.bench.kept(); err != nil {
		return err
	}
	s.cutBefore = f.cut.Load()
	if err := f.take("bursts", phase{"one object for all", s.oneForAll}, phase{"events for one", s.eventsForOne}, phase{"deletions", s.deletions},
		phase{"slow readers", s.slowReaders}, phase{"a Placement", s.everythingThenNothing}, phase{"Placements", s.manyPlacements}); err != nil {
		return err
	}
	kept, err := f.bench.kept()
	b.report.set("burst.memory", float64(kept)/float64(s.before), "%s with the Placements, before %s", megabytes(kept), megabytes(s.before))
	b.report.set("burst.cut", float64(f.cut.Load()-s.cutBefore-s.cutRightly), "%d locations; of what does not read, %d", len(f.all), s.cutRightly)
	return err
}

// burstHub is a full hub at which much happens at once.
type burstHub struct {
	*fullHub
	lookout *lookout
	// before is the hub's memory before the first burst.
	before int64
	// cutBefore are the sessions that the hub had ended before, and cutRightly those of
	// agents that do not read.
	cutBefore, cutRightly int64
}

const burstNamespace = "burst"

// burst makes one burst of changes. It reports the time until all of them have arrived, which do returns, the
// maximum of the memory, and the p50 of a steady edit after the burst divided by that before.
func (s *burstHub) burst(id string, do func() (end time.Time, comment string, err error)) error {
	b := s.bench
	if err := b.calmDown(); err != nil {
		return err
	}
	before, err := s.probes(b.size.burst.probes)
	if err != nil {
		return fmt.Errorf("edits before: %w", err)
	}
	most := followPeak(b.hub.Process)
	meanwhile := s.keepProbing()
	start := time.Now()
	end, comment, err := do()
	peak := most.end()
	busy, missed := meanwhile()
	if err = errors.Join(err, missed); err != nil {
		return err
	}
	after, err := s.probes(b.size.burst.probes)
	if err != nil {
		return fmt.Errorf("edits after: %w", err)
	}
	b.report.set("burst."+id+".time", end.Sub(start).Seconds(), "%s", comment)
	b.report.set("burst."+id+".memory", float64(peak)/float64(s.before), "at most %s, before all %s", megabytes(peak), megabytes(s.before))
	b.report.set("burst."+id+".after", quantile(after, 0.5)/quantile(before, 0.5), "an edit: p50 %.1f ms before, %.1f ms after; meanwhile p50 %.1f ms, p99 %.1f ms of %d",
		quantile(before, 0.5), quantile(after, 0.5), quantile(busy, 0.5), quantile(busy, 0.99), len(busy))
	return nil
}

// oneForAll edits one object that all locations get.
func (s *burstHub) oneForAll() error {
	b := s.bench
	return s.burst("shared", func() (time.Time, string, error) {
		all := s.lookout.want(b.size.sites, func(a arrival) bool { return gjson.GetBytes(a.put.Object, "data.value").String() == burstNamespace })
		if err := b.space.patch(b.ctx, configMaps("default")+"/"+sharedObject(0), `{"data":{"value":"`+burstNamespace+`"}}`); err != nil {
			return time.Time{}, "", err
		}
		last, err := s.lookout.last(s.ctx, all)
		return last, fmt.Sprintf("%d locations", b.size.sites), err
	})
}

// burstPrefix is before the names of what is made for a burst.
const burstPrefix = "burst-"

// burstObject is such a name.
func burstObject(i int) string { return burstPrefix + nameOf(i) }

// placedFrom reports whether an arrival is a ConfigMap of a namespace in a space.
func placedFrom(a arrival, space, namespace string) bool {
	return strings.HasPrefix(a.put.Key, space+"/core/configmaps/"+namespace+"/")
}

// settledBurst waits until a Placement in the space of a path has all applied.
func (s *burstHub) settledBurst(in, name string, objects, pairs int) error {
	return s.bench.settledAt(s.whole, in+placementsPath+"/"+name, objects, pairs)
}

// burstSite is the location that alone gets much.
func (s *burstHub) burstSite() int { return s.bench.size.sites - 1 }

// eventsForOne makes objects in one space, as fast as sixteen clients do, that one location
// gets. In the end it has as many as are then deleted.
func (s *burstHub) eventsForOne() error {
	b := s.bench
	in := "/spaces/" + stateSpace(s.burstSite())
	if err := s.whole.create(b.ctx, in+"/api/v1/namespaces", namespaceOf(burstNamespace)); err != nil {
		return err
	}
	if err := s.whole.create(b.ctx, in+placementsPath, placement(burstNamespace, burstNamespace, "configmaps", named(simulatedName(s.burstSite())), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	fill := func(from, to int) error {
		return share(b.ctx, s.writers, to-from, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, in+configMaps(burstNamespace), configMap(burstNamespace, burstObject(from+i), 2<<10, "wanted"))
		})
	}
	if err := s.burst("events", func() (time.Time, string, error) {
		n := b.size.burst.events
		all := s.lookout.want(n, func(a arrival) bool { return placedFrom(a, stateSpace(s.burstSite()), burstNamespace) })
		if err := fill(0, n); err != nil {
			return time.Time{}, "", err
		}
		made := time.Now()
		last, err := s.lookout.last(s.ctx, all)
		return last, fmt.Sprintf("%d objects for one location; the last has it %.2f s after it was made", n, max(0, last.Sub(made).Seconds())), err
	}); err != nil {
		return err
	}
	if err := fill(b.size.burst.events, b.size.burst.deleted); err != nil {
		return err
	}
	return s.settledBurst(in, burstNamespace, b.size.burst.deleted, b.size.burst.deleted)
}

// deletions deletes all objects of the namespace by one request.
func (s *burstHub) deletions() error {
	b := s.bench
	in := "/spaces/" + stateSpace(s.burstSite())
	return s.burst("deletions", func() (time.Time, string, error) {
		start := time.Now()
		if err := s.whole.do(b.ctx, "DELETE", in+configMaps(burstNamespace), "", nil); err != nil {
			return time.Time{}, "", err
		}
		answered := time.Since(start)
		err := s.settledBurst(in, burstNamespace, 0, 0)
		return time.Now(), fmt.Sprintf("%d objects by one request, answered after %.2f s", b.size.burst.deleted, answered.Seconds()), err
	})
}

// everythingThenNothing places objects at all locations, and then at none.
func (s *burstHub) everythingThenNothing() error {
	b, n := s.bench, s.bench.size.burst.all
	in := "/spaces/" + s.sharedSpace()
	if err := s.whole.create(b.ctx, in+"/api/v1/namespaces", namespaceOf(burstNamespace)); err != nil {
		return err
	}
	nowhere := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{burstNamespace: "no"}}}
	if err := s.whole.create(b.ctx, in+placementsPath, placement(burstNamespace, burstNamespace, "configmaps", nowhere, v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	for i := range n {
		if err := s.whole.create(b.ctx, in+configMaps(burstNamespace), configMap(burstNamespace, burstObject(i), 2<<10, "wanted")); err != nil {
			return err
		}
	}
	return s.burst("placement", func() (time.Time, string, error) {
		var took [2]time.Duration
		for i, selector := range []string{`{}`, `{"matchLabels":{"burst":"no"}}`} {
			start := time.Now()
			if err := s.whole.patch(b.ctx, in+placementsPath+"/"+burstNamespace, `{"spec":{"locations":[{"selector":`+selector+`}]}}`); err != nil {
				return time.Time{}, "", err
			}
			if err := s.settledBurst(in, burstNamespace, n, []int{n * b.size.sites, 0}[i]); err != nil {
				return time.Time{}, "", err
			}
			took[i] = time.Since(start)
		}
		return time.Now(), fmt.Sprintf("%d objects at %d locations after %.2f s, at none after %.2f s more", n, b.size.sites, took[0].Seconds(), took[1].Seconds()), nil
	})
}
