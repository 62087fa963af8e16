package main

import "fmt"

// crowded are the lines of a fleet that are measured of a crowd, too, under names of its own.
var crowded = []string{
	"location.memory", "own.memory", "pair.memory", "memory", "disk", "shared.p50",
	"reconnect.time", "reconnect.sent", "restart.ready", "restart.back", "restart.sent", "restart.memory",
}

// manyLocations measures a fleet of many more locations with fewer objects each: its memory, an object that all
// locations get, new connections of all, and a restart. It shows how far one hub goes, and is no part of a whole
// run.
func (b *bench) manyLocations() error {
	wide := &bench{t: b.t, ctx: b.ctx, size: b.size.wide(), idle: b.idle, cluster: b.cluster, hub: b.hub}
	wide.report = newReport(wide.size, b.report.before)
	f, err := wide.filledFleet()
	if err != nil {
		return err
	}
	defer f.end()
	if err := f.take("crowd", phase{"state", f.readState}, phase{"shared edits", f.editShared}, phase{"reconnects", f.reconnectAll},
		phase{"restart", f.restart}, phase{"memory", wide.restartedFleet}); err != nil {
		return err
	}
	for _, name := range crowded {
		line, ok := wide.report.values["fleet."+name]
		if !ok {
			return fmt.Errorf("the line %s of a fleet was not measured", name)
		}
		b.report.add("crowd."+name, line)
	}
	return nil
}

// wide is the size of a fleet of many locations.
func (s size) wide() size {
	s.sites, s.ownEach, s.shared = s.crowd, s.crowdOwn, s.crowdShared
	s.sharedEdits, s.reconnects = s.crowdEdits, 1
	return s
}
