package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
)

// state is a hub of its own that is filled step by step with what the design
// allows a gigabyte for: spaces, objects in them, connected locations, reports.
// After each step it has size.rest of rest, while other things are measured, and
// then what the step added to its RssAnon is read. Within a step it is filled to a
// quarter, a half and the whole, for the curves.
type state struct {
	growth
	// whole leads to the hub's root path.
	whole *client
	// goroutines are those of the hub before there were spaces.
	goroutines int
	// watches are those of this hub, idle as many of the hub without objects, whose
	// RssAnon was unwatched before.
	watches, idle []*watch
	unwatched     int64
}

const (
	spacesPath = orreryAPI + "/spaces"
	// stateName is the placement, and the namespace in the first space, of what the
	// locations of the state get.
	stateName = "state"
)

func stateSpace(i int) string { return fmt.Sprintf("space-%04d", i) }

// addSpaces makes spaces without anything in them.
func (s *state) addSpaces() error {
	b := s.bench
	s.last = b.hub.Usage().RSSAnon
	var err error
	if s.goroutines, err = s.countGoroutines(); err != nil {
		return err
	}
	if err := s.curve(curveSpaces, 0); err != nil {
		return err
	}
	return s.inStages(curveSpaces, b.size.spaces, b.addSpaces)
}

// inStages fills the hub from one of some sizes to the next, and reads its memory after each.
func (s *state) inStages(curve string, n int, fill func(from, to int) error) error {
	from := 0
	for _, to := range stages(n) {
		if err := fill(from, to); err != nil {
			return err
		}
		if err := s.curve(curve, to); err != nil {
			return err
		}
		from = to
	}
	s.rest = time.Now()
	return nil
}

// curve adds the hub's memory to a curve.
func (s *state) curve(name string, x int) error {
	kept, err := s.bench.kept()
	s.bench.report.point(name, float64(x), float64(kept)/1e6)
	return err
}

// makeSpaces makes spaces and waits until they are ready.
func (b *bench) makeSpaces(n int) error { return b.addSpaces(0, n) }

// addSpaces makes spaces, by number, and waits until they and those before are ready.
func (b *bench) addSpaces(from, n int) error {
	if err := share(b.ctx, make([]struct{}, b.size.apiClients), n-from, func(ctx context.Context, _ struct{}, i int) error {
		return b.root.create(ctx, spacesPath, encoded(map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Space", "metadata": map[string]any{"name": stateSpace(from + i)},
		}))
	}); err != nil {
		return err
	}
	return eventually(b.ctx, "the spaces to be ready", func() error {
		list, err := b.root.get(b.ctx, spacesPath)
		if err != nil {
			return err
		}
		if ready := gjson.GetBytes(list, `items.#.status.conditions.#(type=="Ready").status`).Array(); len(ready) < n {
			return fmt.Errorf("%d of %d are", len(ready), n)
		}
		return nil
	})
}

// addObjects reads what the spaces cost, against a hub without objects that is at
// rest, and puts objects of 2 KB into them.
func (s *state) addObjects() error {
	b, size := s.bench, s.bench.size
	s.last = b.idle.hub.Usage().RSSAnon
	each, err := s.grownAtRest(size.spaces)
	if err != nil {
		return err
	}
	now, err := s.countGoroutines()
	if err != nil {
		return err
	}
	b.report.set("space.memory", each, "%d spaces, hub %s", size.spaces, megabytes(s.last))
	b.report.set("space.goroutines", float64(now-s.goroutines)/float64(size.spaces), "%d before, %d with %d spaces", s.goroutines, now, size.spaces)
	if err := s.curve(curveObjects, 0); err != nil {
		return err
	}
	return s.inStages(curveObjects, size.stateObjects, s.makeObjects)
}

// makeObjects makes objects of 2 KB, by number, which the spaces share, and reads what each
// cost.
func (s *state) makeObjects(from, to int) error {
	b, start, cpu := s.bench, time.Now(), s.bench.hub.Usage().CPU
	if err := share(b.ctx, make([]struct{}, b.size.apiClients), to-from, func(ctx context.Context, _ struct{}, i int) error {
		path := "/spaces/" + stateSpace((from+i)%b.size.spaces) + configMaps("default")
		return s.whole.create(ctx, path, configMap("default", nameOf(from+i), 2<<10, "wanted"))
	}); err != nil {
		return err
	}
	n := float64(to - from)
	b.report.point(curveCreateTime, float64(to), time.Since(start).Seconds()*1e3/n)
	b.report.point(curveCreateCPU, float64(to), (b.hub.Usage().CPU-cpu).Seconds()*1e3/n)
	return nil
}

// addLocations reads what the objects cost, and connects simulated agents.
func (s *state) addLocations() error {
	b := s.bench
	each, err := s.grownAtRest(b.size.stateObjects)
	if err != nil {
		return err
	}
	b.report.set("object.memory", each, "%d objects, hub %s", b.size.stateObjects, megabytes(s.last))
	if err := s.curve(curveLocations, 0); err != nil {
		return err
	}
	return s.inStages(curveLocations, b.size.locations, func(_, to int) error { return b.fleet.grow(to) })
}

// addReports reads what the locations cost, and has each of them report of some
// objects more.
func (s *state) addReports() error {
	b, size := s.bench, s.bench.size
	each, err := s.grownAtRest(size.locations)
	if err != nil {
		return err
	}
	b.report.set("location.memory", each, "%d connected locations, hub %s", size.locations, megabytes(s.last))
	for path, object := range map[string][]byte{
		"/api/v1/namespaces": namespaceOf(stateName),
		placementsPath:       placement(stateName, stateName, "configmaps", named(b.fleet.names(size.locations)...), v1alpha1.ReturnStatusNone),
	} {
		if err := b.space.create(b.ctx, path, object); err != nil {
			return err
		}
	}
	if err := b.fill(stateName, size.reported); err != nil {
		return err
	}
	drained := b.fleet.drain()
	defer drained()
	err = b.waitApplied(stateName, size.reported, size.reported*size.locations)
	s.rest = time.Now()
	return err
}

// read reads what the reports cost, and the sum of it all.
func (s *state) read() error {
	b := s.bench
	reports := b.size.reported * b.size.locations
	each, err := s.grownAtRest(reports)
	if err != nil {
		return err
	}
	b.report.set("report.memory", each, "%d reports, hub %s", reports, megabytes(s.last))
	b.report.set("state.memory", float64(s.last)/1e6, "%d spaces, %d objects of 2 KB, %d connected locations, %d reports; RSS %s",
		b.size.spaces, b.size.stateObjects, b.size.locations, reports, megabytes(b.hub.Usage().RSS))
	database, err := b.database()
	b.report.set("state.disk", float64(database)/1e6, "with its history")
	return err
}

// database is the size of the file of the hub's embedded etcd.
func (b *bench) database() (int64, error) {
	file, err := os.Stat(filepath.Join(b.hub.Dir, "etcd", "member", "snap", "db"))
	if err != nil {
		return 0, fmt.Errorf("measure etcd's database: %w", err)
	}
	return file.Size(), nil
}

// countGoroutines asks the hub how many goroutines it has.
func (s *state) countGoroutines() (int, error) {
	n, err := metricOf(s.bench.ctx, s.whole, "go_goroutines")
	return int(n), err
}
