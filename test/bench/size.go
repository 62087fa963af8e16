package main

import (
	"fmt"
	"time"
)

// size is how much a run measures. It is part of the results.
type size struct {
	// objects are those of the full sync, 1 KB each, rounds how often each side
	// has its turn.
	objects, rounds int
	// edits, statuses and tamperings are how many changes are timed.
	edits, statuses, tamperings int
	// quietTime is how long the hub's log has to stand still to count as come to rest,
	// and quiet how long it then has to stay so.
	quietTime, quiet time.Duration
	// spread are the numbers of locations of one object whose writes are counted.
	spread []int
	// locations get one object at once, waves times.
	locations, waves int
	// few objects, and then many that come at once, are placed for the memory and the
	// restarts of an agent.
	few, many int
	// idle is how long an agent is left alone before its memory is read, and rest how long a
	// hub is, which gives back sooner what it does not use.
	idle, rest time.Duration
	// spaces, stateObjects in them, and reported objects of each of locations fill a
	// hub, on which then watches are opened, which get events.
	spaces, stateObjects, reported, watches, events int
	// throttled objects, and then many more, go to a target that has room for so many requests at once.
	throttled, throttledMany, room int
	// listed objects are listed, lists times.
	listed, lists int
	// walkers are locations that compare their content, of walked objects, at once.
	walkers, walked int
	// sites locations have ownEach objects that no other has, and shared ones that all have.
	sites, ownEach, shared int
	// summaries count what locations report.
	summaries int
	// upsynced is the number of objects that are created at one location and not placed.
	upsynced int
	// sliced objects of so many consumers are in slices.
	slices, sliced, consumers int
	// crowd locations have crowdOwn objects that no other has, and crowdShared ones that all
	// have, of which crowdEdits are edited.
	crowd, crowdOwn, crowdShared, crowdEdits int
	// rates are how many edits a second are made, paced edits at each; sharedEdits are
	// those of shared objects, reconnects how often all locations connect anew.
	rates                          []int
	paced, sharedEdits, reconnects int
	burst                          burstSize
	// apiObjects are created and applied per round by apiClients.
	apiObjects, apiRounds, apiClients int
}

// burstSize is how much comes at once.
type burstSize struct {
	// events are what one location gets, deleted objects are those of one space, and
	// placements are those of one, too.
	events, deleted, placements int
	// all objects are placed everywhere and then nowhere.
	all int
	// large objects of 64 KB go to locations that read slowly, or not.
	large int
	// probes is the number of edits that are timed before a burst, and after it.
	probes int
}

func fullSize() size {
	return size{
		objects: 1000, rounds: 5,
		edits: 300, statuses: 100, tamperings: 100,
		quietTime: 2 * time.Second, quiet: 30 * time.Second,
		spread: []int{1, 10, 100}, locations: 1000, waves: 3,
		few: 10_000, many: 50_000, idle: 2 * time.Minute, rest: 65 * time.Second,
		spaces: 1000, stateObjects: 50_000, reported: 100, watches: 1000, events: 20,
		throttled: 1000, throttledMany: 5000, room: 4, listed: 10_000, lists: 5,
		walkers: 1000, walked: 50_000,
		sites: 1000, ownEach: 50, shared: 50, summaries: 100, upsynced: 10_000,
		slices: 1000, sliced: 50_000, consumers: 50,
		crowd: 5000, crowdOwn: 5, crowdShared: 10, crowdEdits: 10,
		rates: []int{300, 500, 1000}, paced: 10_000, sharedEdits: 50, reconnects: 3,
		burst:      burstSize{events: 2000, deleted: 10_000, placements: 5000, all: 20, large: 600, probes: 200},
		apiObjects: 2000, apiRounds: 3, apiClients: 16,
	}
}

// smallSize is what takes minutes; its values have ranges of their own, where how much
// there is changes them.
func smallSize() size {
	return size{
		objects: 300, rounds: 3,
		edits: 100, statuses: 20, tamperings: 20,
		quietTime: 2 * time.Second, quiet: 10 * time.Second,
		spread: []int{1, 10, 100}, locations: 100, waves: 3,
		few: 1000, many: 3000, idle: 8 * time.Second, rest: 8 * time.Second,
		spaces: 100, stateObjects: 5000, reported: 20, watches: 100, events: 10,
		throttled: 300, throttledMany: 1000, room: 4, listed: 2000, lists: 3,
		walkers: 100, walked: 5000,
		sites: 100, ownEach: 20, shared: 20, summaries: 100, upsynced: 1000,
		slices: 200, sliced: 5000, consumers: 10,
		crowd: 300, crowdOwn: 5, crowdShared: 10, crowdEdits: 5,
		rates: []int{50, 100, 200}, paced: 1000, sharedEdits: 20, reconnects: 3,
		burst:      burstSize{events: 500, deleted: 1000, placements: 500, all: 10, large: 200, probes: 60},
		apiObjects: 500, apiRounds: 3, apiClients: 16,
	}
}

// quickSize is as small as can be with every number still made.
func quickSize() size {
	return size{
		objects: 20, rounds: 1,
		edits: 5, statuses: 3, tamperings: 3,
		quietTime: time.Second / 2, quiet: time.Second,
		spread: []int{1, 10, 100}, locations: 120, waves: 1,
		few: 30, many: 60, idle: 0, rest: 0,
		spaces: 10, stateObjects: 40, reported: 2, watches: 20, events: 2,
		throttled: 20, throttledMany: 40, room: 4, listed: 150, lists: 1,
		walkers: 20, walked: 200,
		sites: 10, ownEach: 3, shared: 2, summaries: 10, upsynced: 20,
		slices: 10, sliced: 40, consumers: 2,
		crowd: 20, crowdOwn: 2, crowdShared: 2, crowdEdits: 2,
		rates: []int{20, 30, 40}, paced: 20, sharedEdits: 3, reconnects: 1,
		burst:      burstSize{events: 20, deleted: 20, placements: 10, all: 2, large: 20, probes: 5},
		apiObjects: 50, apiRounds: 1, apiClients: 4,
	}
}

func (s size) String() string {
	return fmt.Sprintf("%d objects, %d rounds, %d edits, %d statuses, %d tamperings, quiet for %s, %d locations, %d and %d objects at one, idle for %s, %d spaces with %d objects, %d reports at each location, %d watches, %d locations that walk %d objects, a fleet of %d with %d own objects each and %d shared, a crowd of %d with %d and %d, %d Summaries, %d created at one location, %d slices with %d objects of %d spaces, %d edits at each of %v a second, bursts of %d events, %d deletions and %d Placements, %d API objects",
		s.objects, s.rounds, s.edits, s.statuses, s.tamperings, s.quiet, s.locations, s.few, s.many, s.idle, s.spaces, s.stateObjects, s.reported, s.watches, s.walkers, s.walked, s.sites, s.ownEach, s.shared, s.crowd, s.crowdOwn, s.crowdShared, s.summaries, s.upsynced, s.slices, s.sliced, s.consumers, s.paced, s.rates, s.burst.events, s.burst.deleted, s.burst.placements, s.apiObjects)
}
