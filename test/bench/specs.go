package main

import "fmt"

// better is the direction in which a value improves.
type better int

const (
	lower better = iota
	higher
)

// spec is one line of the table. Bar and stretch are what the design asks for.
type spec struct {
	id, what, unit string
	better         better
	bar, stretch   *float64
}

// specs are all lines, in the order of the table.
func specs() []spec {
	return []spec{
		{"sync.rate", "full sync: rate / that of a bare client with 16 workers", "x", higher, new(0.9), new(1.0)},
		{"sync.extra", "full sync: target writes beyond one per object", "", lower, new(0.0), nil},
		{"sync.cpu", "full sync: CPU of the agent / that of the bare client", "x", lower, new(1.5), nil},
		{"many.time", "a target gets 50,000 objects at once: the last is there", "s", lower, nil, nil},
		{"many.rate", "a target gets 50,000 objects at once: rate / that of a bare client", "x", higher, new(0.9), new(1.0)},
		{"many.cpu", "a target gets 50,000 objects at once: its CPU for each / for a bare client", "x", lower, nil, nil},
		{"many.memory", "a target gets 50,000 objects at once: the most that the agent took, RssAnon", "MB", lower, nil, nil},
		{"edit.p50", "edit to target, one object: p50", "ms", lower, new(10.0), new(4.0)},
		{"edit.p99", "edit to target, one object: p99", "ms", lower, new(50.0), new(15.0)},
		{"status.p50", "status at the cluster to space: p50", "ms", lower, new(15.0), new(8.0)},
		{"status.p99", "status at the cluster to space: p99", "ms", lower, new(60.0), new(30.0)},
		{"statuses.p50", "status at two clusters to space: p50", "ms", lower, new(20.0), new(12.0)},
		{"statuses.p99", "status at two clusters to space: p99", "ms", lower, nil, nil},
		{"status.writes", "writes of the log for 1,000 changes of a status, one by one", "", lower, nil, nil},
		{"status.bytes", "bytes of the log for 1,000 changes of a status, one by one", "KB", lower, nil, nil},
		{"drift.p50", "drift repaired: p50", "ms", lower, nil, nil},
		{"drift.p99", "drift repaired: p99", "ms", lower, new(100.0), new(20.0)},
		{"quiet.requests", "nothing changing: requests of the agent to the target", "", lower, new(0.0), nil},
		{"quiet.revisions", "nothing changing: revisions of the hub's log", "", lower, new(0.0), nil},
		{"quiet.bytes", "nothing changing: between agent and hub, a day", "MB", lower, new(1.0), nil},
		{"writes.object", "one object on C locations: writes of the object", "", lower, new(1.0), nil},
		{"writes.keys", "one object on C locations: report keys / C", "x", lower, new(1.0), nil},
		{"writes.1", "one object on 1 location: further transactions", "", lower, new(3.0), nil},
		{"writes.10", "one object on 10 locations: further transactions", "", lower, new(3.0), nil},
		{"writes.100", "one object on 100 locations: further transactions", "", lower, new(3.0), nil},
		{"fanout.create", "one new object to 1,000 locations: the last has it", "s", lower, new(0.1), nil},
		{"fanout.edit", "one edit to 1,000 locations: the last has it", "s", lower, new(0.1), nil},
		{"memory.hub", "hub without objects: RssAnon", "MB", lower, nil, nil},
		{"memory.agent", "agent without objects: RssAnon", "MB", lower, new(8.0), new(5.0)},
		{"memory.few", "agent with 10,000 objects, each: RssAnon", "KB", lower, new(1.0), new(0.6)},
		{"memory.many", "agent with 50,000 objects, each: RssAnon", "KB", lower, new(1.0), new(0.6)},
		{"restart.few.writes", "agent restarted, 10,000 objects, nothing changed: target writes", "", lower, new(0.0), nil},
		{"restart.few.bytes", "agent restarted, 10,000 objects, nothing changed: from and to hub", "KB", lower, nil, nil},
		{"restart.few.repair", "agent restarted, 10,000 objects: until drift is repaired", "s", lower, nil, nil},
		{"restart.many.writes", "agent restarted, 50,000 objects, nothing changed: target writes", "", lower, new(0.0), nil},
		{"restart.many.bytes", "agent restarted, 50,000 objects, nothing changed: from and to hub", "KB", lower, nil, nil},
		{"restart.many.repair", "agent restarted, 50,000 objects: until drift is repaired", "s", lower, new(5.0), nil},
		{"reconnect.up", "reconnect in sync, 50,000 objects: payload to the hub", "B", lower, new(1000.0), nil},
		{"reconnect.down", "reconnect in sync, 50,000 objects: payload from the hub", "B", lower, new(1000.0), nil},
		{"reconnect.wire", "reconnect in sync, 50,000 objects: both ways on the wire", "KB", lower, nil, nil},
		{"throttle.rate", "target that refuses with 429: rate / what it allows", "x", higher, new(0.8), nil},
		{"throttle.refused", "target that refuses with 429: refusals for each object", "", lower, nil, nil},
		{"throttle.many.rate", "the same with many more objects: rate / what it allows", "x", higher, new(0.8), nil},
		{"throttle.many.refused", "the same with many more objects: refusals for each object", "", lower, nil, nil},
		{"api.create", "space API, 2 KB, 16 clients: creates / stock kube-apiserver's", "x", higher, new(2.0), new(2.5)},
		{"api.create.cpu", "space API, 2 KB, 16 clients: CPU of a create / stock kube-apiserver's and etcd's", "x", lower, new(1.0 / 3), nil},
		{"api.apply", "space API, 2 KB, 16 clients: applies / stock kube-apiserver's", "x", higher, new(1.5), new(2.0)},
		{"hubs.1.create", "1 hub on an etcd of 3 members: creates of 2 KB a second, 16 clients", "", higher, nil, nil},
		{"hubs.1.cpu", "1 hub on an etcd of 3 members: CPU of all hubs for a create", "ms", lower, nil, nil},
		{"hubs.1.edit.p50", "1 hub on an etcd of 3 members: edit at the first to an agent at the last, p50", "ms", lower, nil, nil},
		{"hubs.1.edit.p99", "1 hub on an etcd of 3 members: edit at the first to an agent at the last, p99", "ms", lower, nil, nil},
		{"hubs.2.create", "2 hubs on an etcd of 3 members: creates of 2 KB a second, 16 clients", "", higher, nil, nil},
		{"hubs.2.cpu", "2 hubs on an etcd of 3 members: CPU of all hubs for a create", "ms", lower, nil, nil},
		{"hubs.2.edit.p50", "2 hubs on an etcd of 3 members: edit at the first to an agent at the last, p50", "ms", lower, nil, nil},
		{"hubs.2.edit.p99", "2 hubs on an etcd of 3 members: edit at the first to an agent at the last, p99", "ms", lower, nil, nil},
		{"hubs.3.create", "3 hubs on an etcd of 3 members: creates of 2 KB a second, 16 clients", "", higher, nil, nil},
		{"hubs.3.cpu", "3 hubs on an etcd of 3 members: CPU of all hubs for a create", "ms", lower, nil, nil},
		{"hubs.3.edit.p50", "3 hubs on an etcd of 3 members: edit at the first to an agent at the last, p50", "ms", lower, nil, nil},
		{"hubs.3.edit.p99", "3 hubs on an etcd of 3 members: edit at the first to an agent at the last, p99", "ms", lower, nil, nil},
		{"list.json", "list of 10,000, JSON: time / stock kube-apiserver's", "x", lower, new(0.3), nil},
		{"list.json.cpu", "list of 10,000, JSON: CPU / stock kube-apiserver's", "x", lower, nil, nil},
		{"list.table", "list of 10,000, table: time / stock kube-apiserver's", "x", lower, new(0.3), nil},
		{"list.table.cpu", "list of 10,000, table: CPU / stock kube-apiserver's", "x", lower, nil, nil},
		{"list.protobuf", "list of 10,000, protobuf: time / stock kube-apiserver's", "x", lower, new(1.0), nil},
		{"list.protobuf.cpu", "list of 10,000, protobuf: CPU / stock kube-apiserver's", "x", lower, nil, nil},
		{"watch.p50", "write to event at a watcher: p50", "ms", lower, nil, nil},
		{"watch.p99", "write to event at a watcher: p99", "ms", lower, nil, nil},
		{"watches.all", "write to event at the last of 1,000 watchers", "ms", lower, nil, nil},
		{"watches.memory", "hub without objects, for each of 1,000 open watches: RssAnon", "KB", lower, new(20.0), nil},
		{"walks.time", "1,000 locations walk at once what they have of 50,000: time / that of the same bytes", "x", lower, new(5.0), new(2.0)},
		{"space.memory", "hub, for each idle space: RssAnon", "KB", lower, new(20.0), new(10.0)},
		{"space.goroutines", "hub, for each idle space: goroutines", "", lower, new(0.05), nil},
		{"object.memory", "hub, for each object of 2 KB: RssAnon", "KB", lower, new(4.5), nil},
		{"location.memory", "hub, for each connected location: RssAnon", "KB", lower, nil, nil},
		{"report.memory", "hub, for each report: RssAnon", "KB", lower, new(1.0), nil},
		{"state.memory", "hub, all of the latter: RssAnon", "MB", lower, new(524.3), new(419.4)},
		{"state.disk", "hub, all of the latter: etcd's database", "MB", lower, nil, nil},
		{"fleet.location.memory", "fleet, hub, for each location, connected, with space and Placement: RssAnon", "KB", lower, nil, nil},
		{"fleet.own.memory", "fleet, hub, for each object that one location gets: RssAnon", "KB", lower, nil, nil},
		{"fleet.pair.memory", "fleet, hub, for each location of an object that all get: RssAnon", "KB", lower, nil, nil},
		{"fleet.memory", "fleet, hub: RssAnon", "MB", lower, new(629.1), new(419.4)},
		{"fleet.disk", "fleet, hub: etcd's database", "MB", lower, nil, nil},
		{"fleet.edit.p50", "fleet, edits at a steady rate, to the one location: p50", "ms", lower, nil, nil},
		{"fleet.edit.p99", "fleet, edits at a steady rate, to the one location: p99", "ms", lower, new(1000.0), nil},
		{"fleet.edit.cut", "fleet, edits at a steady rate: sessions that the hub ended", "", lower, new(0.0), nil},
		{"fleet.edit.rate", "fleet, edits at a steady rate: reached", "x", higher, new(0.95), nil},
		{"fleet.edit.behind", "fleet, edits at a steady rate: behind after the last", "s", lower, new(1.0), nil},
		{"fleet.edit.relative", "fleet, edits at a steady rate: p50 / stock kube-apiserver's to a watch", "x", lower, nil, nil},
		{"fleet.edit.cpu", "fleet, edits at a steady rate: CPU / stock kube-apiserver's and etcd's", "x", lower, nil, nil},
		{"fleet.edit.writes", "fleet, edits at a steady rate: revisions of the hub's log for each", "", lower, nil, nil},
		{"fleet.edit.500.p50", "fleet, 500 edits a second: p50", "ms", lower, nil, nil},
		{"fleet.edit.500.p99", "fleet, 500 edits a second: p99", "ms", lower, nil, nil},
		{"fleet.edit.500.rate", "fleet, 500 edits a second: reached", "x", higher, nil, nil},
		{"fleet.edit.500.behind", "fleet, 500 edits a second: behind after the last", "s", lower, nil, nil},
		{"fleet.edit.500.cut", "fleet, 500 edits a second: sessions that the hub ended", "", lower, new(0.0), nil},
		{"fleet.edit.1000.p50", "fleet, 1,000 edits a second: p50", "ms", lower, nil, nil},
		{"fleet.edit.1000.p99", "fleet, 1,000 edits a second: p99", "ms", lower, nil, nil},
		{"fleet.edit.1000.rate", "fleet, 1,000 edits a second: reached", "x", higher, nil, nil},
		{"fleet.edit.1000.behind", "fleet, 1,000 edits a second: behind after the last", "s", lower, nil, nil},
		{"fleet.edit.1000.cut", "fleet, 1,000 edits a second: sessions that the hub ended", "", lower, new(0.0), nil},
		{"fleet.shared.p50", "fleet, an edit that all get: the last has it, p50", "ms", lower, new(300.0), new(100.0)},
		{"fleet.shared.p99", "fleet, an edit that all get: the last has it, p99", "ms", lower, nil, nil},
		{"fleet.shared.cpu", "fleet, an edit that all get: CPU for each location / for an edit that one gets", "x", lower, nil, nil},
		{"fleet.reconnect.time", "fleet, all connect anew at once: the last is in sync", "s", lower, nil, nil},
		{"fleet.reconnect.relative", "fleet, all connect anew at once: time / that of bare connections", "x", lower, nil, nil},
		{"fleet.reconnect.up", "fleet, connecting anew: to the hub, for each", "KB", lower, nil, nil},
		{"fleet.reconnect.down", "fleet, connecting anew: from the hub, for each", "KB", lower, nil, nil},
		{"fleet.reconnect.sent", "fleet, connecting anew: objects sent again", "", lower, new(0.0), nil},
		{"fleet.reconnect.get", "fleet, all connect anew at once: a user's get meanwhile, p99", "ms", lower, nil, nil},
		{"fleet.reconnect.list", "fleet, all connect anew at once: a user's list meanwhile, p99", "ms", lower, nil, nil},
		{"fleet.late.time", "fleet, all connect at once after edits that they missed: the last has them", "s", lower, nil, nil},
		{"fleet.late.sent", "fleet, after edits that they missed: objects sent beyond those", "", lower, new(0.0), nil},
		{"fleet.empty.time", "fleet, all connect at once having lost all: the last has all again", "s", lower, nil, nil},
		{"fleet.empty.sent", "fleet, having lost all: objects sent beyond one of each", "", lower, new(0.0), nil},
		{"fleet.empty.memory", "fleet, having lost all: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"fleet.restart.ready", "fleet, hub killed and restarted: until it is ready", "s", lower, new(10.0), new(5.0)},
		{"fleet.restart.back", "fleet, hub killed and restarted: until all are in sync", "s", lower, nil, nil},
		{"fleet.restart.cpu", "fleet, hub killed and restarted: CPU until all are in sync / for an edit", "x", lower, nil, nil},
		{"fleet.restart.up", "fleet, hub killed and restarted: to the hub, for each location", "KB", lower, nil, nil},
		{"fleet.restart.down", "fleet, hub killed and restarted: from the hub, for each location", "KB", lower, nil, nil},
		{"fleet.restart.sent", "fleet, hub killed and restarted: objects sent again", "", lower, new(0.0), nil},
		{"fleet.restart.writes", "fleet, hub killed and restarted: revisions of its log", "", lower, nil, nil},
		{"fleet.restart.memory", "fleet, hub killed and restarted: RssAnon", "MB", lower, nil, nil},
		{"crowd.location.memory", "5,000 locations, hub, for each, connected, with space and Placement: RssAnon", "KB", lower, nil, nil},
		{"crowd.own.memory", "5,000 locations, hub, for each object that one location gets: RssAnon", "KB", lower, nil, nil},
		{"crowd.pair.memory", "5,000 locations, hub, for each location of an object that all get: RssAnon", "KB", lower, nil, nil},
		{"crowd.memory", "5,000 locations, hub: RssAnon", "MB", lower, nil, nil},
		{"crowd.disk", "5,000 locations, hub: etcd's database", "MB", lower, nil, nil},
		{"crowd.shared.p50", "5,000 locations, an edit that all get: the last has it, p50", "ms", lower, nil, nil},
		{"crowd.reconnect.time", "5,000 locations, all connect anew at once: the last is in sync", "s", lower, nil, nil},
		{"crowd.reconnect.sent", "5,000 locations, connecting anew: objects sent again", "", lower, new(0.0), nil},
		{"crowd.restart.ready", "5,000 locations, hub killed and restarted: until it is ready", "s", lower, nil, nil},
		{"crowd.restart.back", "5,000 locations, hub killed and restarted: until all are in sync", "s", lower, nil, nil},
		{"crowd.restart.sent", "5,000 locations, hub killed and restarted: objects sent again", "", lower, new(0.0), nil},
		{"crowd.restart.memory", "5,000 locations, hub killed and restarted: RssAnon", "MB", lower, nil, nil},
		{"burst.shared.time", "burst, one object changed for all: until all is as it has to be", "s", lower, nil, nil},
		{"burst.shared.memory", "burst, one object changed for all: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.shared.after", "burst, one object changed for all: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.events.time", "burst, 2,000 events for one location: until all is as it has to be", "s", lower, nil, nil},
		{"burst.events.memory", "burst, 2,000 events for one location: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.events.after", "burst, 2,000 events for one location: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.deletions.time", "burst, 10,000 objects deleted in a space: until all is as it has to be", "s", lower, nil, nil},
		{"burst.deletions.memory", "burst, 10,000 objects deleted in a space: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.deletions.after", "burst, 10,000 objects deleted in a space: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.slow.time", "burst, a slow reader, and one that never reads: until all is as it has to be", "s", lower, nil, nil},
		{"burst.slow.memory", "burst, a slow reader, and one that never reads: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.slow.after", "burst, a slow reader, and one that never reads: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.placement.time", "burst, a Placement selects everything, then nothing: until all is as it has to be", "s", lower, nil, nil},
		{"burst.placement.memory", "burst, a Placement selects everything, then nothing: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.placement.after", "burst, a Placement selects everything, then nothing: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.placements.time", "burst, 5,000 Placements in a space: until all is as it has to be", "s", lower, nil, nil},
		{"burst.placements.memory", "burst, 5,000 Placements in a space: the most that the hub took / before, RssAnon", "x", lower, nil, nil},
		{"burst.placements.after", "burst, 5,000 Placements in a space: p50 of another edit after / before", "x", lower, nil, nil},
		{"burst.placements.edit", "burst, 5,000 Placements in a space: p50 of an edit there / before", "x", lower, nil, nil},
		{"burst.memory", "bursts: what the hub keeps after all / before, RssAnon", "x", lower, nil, nil},
		{"burst.cut", "bursts: sessions of reading agents that the hub ended", "", lower, new(0.0), nil},
		{"reports.memory", "reports of Deployments at 100 locations, hub, each with its status: RssAnon", "KB", lower, nil, nil},
		{"reports.rate", "reports of Deployments from 100 locations at once, taken a second", "", higher, nil, nil},
		{"reports.writes", "reports of Deployments from 100 locations at once: revisions for 1,000", "", lower, nil, nil},
		{"reports.bytes", "reports of Deployments from 100 locations at once: bytes of the log for 1,000", "KB", lower, nil, nil},
		{"summaries.memory", "hub, for each of 100 Summaries of 10 Deployments at 100 locations: RssAnon", "KB", lower, nil, nil},
		{"summaries.cpu", "reports that 100 Summaries count: CPU of the hub more for each", "µs", lower, nil, nil},
		{"summaries.rate", "reports that 100 Summaries count: taken a second / without Summaries", "x", higher, nil, nil},
		{"upsync.time", "10,000 objects created at one location: from the request until the reports view has all", "s", lower, nil, nil},
		{"upsync.hub.memory", "objects created at one location, hub, for each of 1 KB: RssAnon", "KB", lower, nil, nil},
		{"upsync.agent.memory", "objects created at one location, agent, for each of 1 KB: RssAnon", "KB", lower, nil, nil},
		{"upsync.p50", "objects created at one location, one changed: until the reports view has it, p50", "ms", lower, nil, nil},
		{"upsync.p99", "objects created at one location, one changed: until the reports view has it, p99", "ms", lower, nil, nil},
		{"upsync.requests", "objects created at one location, nothing changing: requests of the agent to the target", "", lower, new(0.0), nil},
		{"upsync.revisions", "objects created at one location, nothing changing: revisions of the hub's log", "", lower, new(0.0), nil},
		{"exports.object.memory", "exported objects of 1 KB, hub, for each: RssAnon", "KB", lower, nil, nil},
		{"exports.sliced.memory", "exported objects in 1,000 slices, hub, for each what slices add: RssAnon", "KB", lower, nil, nil},
		{"exports.watch.memory", "1,000 slices, each watched, hub, for each: RssAnon", "KB", lower, nil, nil},
		{"exports.edit.cpu", "edits of objects in slices that are watched: CPU with 1,000 slices / with one", "x", lower, new(1.5), new(1.1)},
		{"exports.edit.p50", "edits of objects in 1,000 slices, to the watch of the slice: p50", "ms", lower, nil, nil},
		{"exports.edit.p99", "edits of objects in 1,000 slices, to the watch of the slice: p99", "ms", lower, nil, nil},
		{"render.create", "own renderings, one new object to 1,000 locations: the last has it", "s", lower, new(1.0), new(0.3)},
		{"render.create.relative", "own renderings, one new object to 1,000 locations: time / one that all get alike", "x", lower, nil, nil},
		{"render.pair.memory", "own renderings, hub, for each object and location: RssAnon", "KB", lower, nil, nil},
		{"render.rate", "own renderings, a rule changed for all: rendered, sent and reported, a second", "", higher, nil, nil},
		{"render.property.p50", "own renderings, a property of one location changed: it has all its objects, p50", "ms", lower, nil, nil},
		{"render.property.others", "own renderings, a property of one location changed: objects sent to others", "", lower, new(0.0), nil},
		{"render.restart.back", "own renderings, hub killed and restarted: until all are in sync", "s", lower, nil, nil},
		{"render.restart.sent", "own renderings, hub killed and restarted: objects sent again", "", lower, new(0.0), nil},
		{"render.restart.memory", "own renderings, hub killed and restarted: RssAnon", "MB", lower, nil, nil},
	}
}

// reaches reports whether a value is at least as good as a limit.
func (s spec) reaches(value, limit float64) bool {
	if s.better == higher {
		return value >= limit
	}
	return value <= limit
}

// result compares a value with bar and stretch.
func (s spec) result(value float64) string {
	switch {
	case s.bar == nil:
		return "-"
	case s.stretch != nil && s.reaches(value, *s.stretch):
		return "stretch"
	case s.reaches(value, *s.bar):
		return "met"
	}
	return "missed"
}

// limit shows a bar or a stretch.
func (s spec) limit(v *float64) string {
	if v == nil {
		return "-"
	}
	sign := map[better]string{lower: "≤", higher: "≥"}[s.better]
	return sign + s.show(*v)
}

// show shows a value with its unit.
func (s spec) show(v float64) string {
	digits := "%.2f%s"
	switch {
	case v == float64(int64(v)):
		digits = "%.0f%s"
	case s.unit == "ms":
		digits = "%.1f%s"
	}
	unit := s.unit
	if unit != "" && unit != "x" {
		unit = " " + unit
	}
	return fmt.Sprintf(digits, v, unit)
}
