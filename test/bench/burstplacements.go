package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// placementsNamespace has what many Placements place.
const placementsNamespace = "placements"

// manyPlacements makes many Placements in one space, each of one of its objects for one
// location, and edits one of them while there is one Placement and when there are all. They
// stay: they are the last burst.
func (s *burstHub) manyPlacements() error {
	b, n := s.bench, s.bench.size.burst.placements
	in := "/spaces/" + stateSpace(s.burstSite())
	if err := s.whole.create(b.ctx, in+"/api/v1/namespaces", namespaceOf(placementsNamespace)); err != nil {
		return err
	}
	for i := range b.size.ownEach {
		if err := s.whole.create(b.ctx, in+configMaps(placementsNamespace), configMap(placementsNamespace, nameOf(i), 2<<10, "wanted")); err != nil {
			return err
		}
	}
	if err := s.whole.create(b.ctx, in+placementsPath, s.placementOf(0)); err != nil {
		return err
	}
	if err := s.settledBurst(in, burstObject(0), 1, 1); err != nil {
		return err
	}
	before, err := s.editThere(in)
	if err != nil {
		return err
	}
	if err := s.burst("placements", func() (time.Time, string, error) {
		all := s.lookout.want(s.placedPairs()-1, func(a arrival) bool { return placedFrom(a, stateSpace(s.burstSite()), placementsNamespace) })
		start := time.Now()
		if err := share(b.ctx, s.writers, n-1, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, in+placementsPath, s.placementOf(i+1))
		}); err != nil {
			return time.Time{}, "", err
		}
		made := time.Since(start)
		if _, err := s.lookout.last(s.ctx, all); err != nil {
			return time.Time{}, "", err
		}
		err := s.allPlaced(in+placementsPath, n)
		return time.Now(), fmt.Sprintf("%d Placements, made after %.2f s, %d objects at locations", n, made.Seconds(), s.placedPairs()), err
	}); err != nil {
		return err
	}
	then, err := s.editThere(in)
	if err != nil {
		return err
	}
	b.report.set("burst.placements.edit", quantile(then, 0.5)/quantile(before, 0.5), "p50 %.1f ms before, %.1f ms with %d Placements", quantile(before, 0.5), quantile(then, 0.5), n)
	return b.calmDown()
}

// placementOf is one of the Placements.
func (s *burstHub) placementOf(i int) []byte {
	site, object := s.pairOf(i)
	return encoded(v1alpha1.Placement{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Placement"},
		ObjectMeta: metav1.ObjectMeta{Name: burstObject(i)},
		Spec: v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{named(simulatedName(site))},
			Downsync: []v1alpha1.Downsync{{
				ObjectTest:   v1alpha1.ObjectTest{Namespaces: []string{placementsNamespace}, Resources: []string{"configmaps"}, Names: []string{nameOf(object)}},
				ReturnStatus: v1alpha1.ReturnStatusNone,
			}},
		},
	})
}

// pairOf is the location and the object of a Placement.
func (s *burstHub) pairOf(i int) (site, object int) {
	return i % s.bench.size.sites, i % s.bench.size.ownEach
}

// placedPairs are how many objects at locations the Placements bring about.
func (s *burstHub) placedPairs() int {
	pairs := map[[2]int]struct{}{}
	for i := range s.bench.size.burst.placements {
		site, object := s.pairOf(i)
		pairs[[2]int{site, object}] = struct{}{}
	}
	return len(pairs)
}

// allPlaced waits until the counts of all Placements report all their objects as applied.
func (s *burstHub) allPlaced(path string, n int) error {
	b := s.bench
	return eventually(b.ctx, "the Placements", func() error {
		text, err := s.whole.get(b.ctx, path)
		if err != nil {
			return err
		}
		var all v1alpha1.PlacementList
		if err := json.Unmarshal(text, &all); err != nil {
			return err
		}
		done := 0
		for i := range all.Items {
			if st := all.Items[i].Status; strings.HasPrefix(all.Items[i].Name, burstPrefix) && st.Assigned == 1 && st.Applied == 1 {
				done++
			}
		}
		if done < n {
			return fmt.Errorf("%d of %d have all applied", done, n)
		}
		return nil
	})
}

// editThere edits the first object of the namespace in the space of a path, and returns how
// many milliseconds each edit took until the first location has it.
func (s *burstHub) editThere(in string) ([]float64, error) {
	b := s.bench
	var took []time.Duration
	for i := range max(3, b.size.burst.probes/4) {
		value := fmt.Sprintf("there-%d-%d", s.edited, i)
		seen := s.lookout.want(1, func(a arrival) bool {
			return a.location == simulatedName(0) && gjson.GetBytes(a.put.Object, "data.value").String() == value
		})
		start := time.Now()
		if err := s.whole.patch(b.ctx, in+configMaps(placementsNamespace)+"/"+nameOf(0), fmt.Sprintf(`{"data":{"value":%q}}`, value)); err != nil {
			return nil, err
		}
		arrived, err := s.lookout.last(s.ctx, seen)
		if err != nil {
			return nil, err
		}
		took = append(took, arrived.Sub(start))
		if !wait(b.ctx, probeEvery) {
			return nil, b.ctx.Err()
		}
	}
	return milliseconds(took), nil
}
