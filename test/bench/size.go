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
	// calm is how long the hub's log has to stand still to count as come to rest,
	// and quiet how long it then has to stay so.
	calm, quiet time.Duration
	// spread are the numbers of locations of one object whose writes are counted.
	spread []int
	// locations get one object at once, waves times.
	locations, waves int
	// few and many objects are placed for the memory and the restarts of an agent.
	few, many int
	// idle is how long a process is left alone before its memory is read.
	idle time.Duration
	// spaces, stateObjects in them, and reported objects of each of locations fill a
	// hub, on which then watches are opened, which get events.
	spaces, stateObjects, reported, watches, events int
	// throttled objects go to a target that has room for so many requests at once.
	throttled, room int
	// listed objects are listed, lists times.
	listed, lists int
	// walkers are locations that compare their content, of walked objects, at once.
	walkers, walked int
	// sites locations have ownEach objects that no other has, and shared ones that all have.
	sites, ownEach, shared int
	// summaries count what locations report.
	summaries int
	// born are objects that are born at one location.
	born int
	// editRate edits a second go on for editFor; sharedEdits are those of shared
	// objects, reconnects how often all locations connect anew.
	editRate, sharedEdits, reconnects int
	editFor                           time.Duration
	// apiObjects are created and applied per round by apiClients.
	apiObjects, apiRounds, apiClients int
}

func fullSize() size {
	return size{
		objects: 1000, rounds: 5,
		edits: 300, statuses: 100, tamperings: 100,
		calm: 3 * time.Second, quiet: 30 * time.Second,
		spread: []int{1, 10, 100}, locations: 1000, waves: 5,
		few: 10_000, many: 50_000, idle: 2 * time.Minute,
		spaces: 1000, stateObjects: 50_000, reported: 100, watches: 1000, events: 20,
		throttled: 1000, room: 4, listed: 10_000, lists: 5,
		walkers: 1000, walked: 50_000,
		sites: 1000, ownEach: 50, shared: 50, summaries: 100, born: 10_000,
		editRate: 300, editFor: 2 * time.Minute, sharedEdits: 100, reconnects: 5,
		apiObjects: 2000, apiRounds: 3, apiClients: 16,
	}
}

// smallSize is what takes minutes; its values have ranges of their own, where how much
// there is changes them.
func smallSize() size {
	return size{
		objects: 300, rounds: 3,
		edits: 100, statuses: 20, tamperings: 20,
		calm: 2 * time.Second, quiet: 10 * time.Second,
		spread: []int{1, 10, 100}, locations: 100, waves: 3,
		few: 1000, many: 3000, idle: 8 * time.Second,
		spaces: 100, stateObjects: 5000, reported: 20, watches: 100, events: 10,
		throttled: 300, room: 4, listed: 2000, lists: 3,
		walkers: 100, walked: 5000,
		sites: 100, ownEach: 20, shared: 20, summaries: 100, born: 1000,
		editRate: 50, editFor: 20 * time.Second, sharedEdits: 20, reconnects: 3,
		apiObjects: 500, apiRounds: 3, apiClients: 16,
	}
}

// quickSize is as small as can be with every number still made.
func quickSize() size {
	return size{
		objects: 20, rounds: 1,
		edits: 5, statuses: 3, tamperings: 3,
		calm: time.Second / 2, quiet: time.Second,
		spread: []int{1, 10, 100}, locations: 120, waves: 1,
		few: 30, many: 60, idle: 0,
		spaces: 10, stateObjects: 40, reported: 2, watches: 20, events: 2,
		throttled: 20, room: 4, listed: 150, lists: 1,
		walkers: 20, walked: 200,
		sites: 10, ownEach: 3, shared: 2, summaries: 10, born: 20,
		editRate: 20, editFor: time.Second, sharedEdits: 3, reconnects: 1,
		apiObjects: 50, apiRounds: 1, apiClients: 4,
	}
}

func (s size) String() string {
	return fmt.Sprintf("%d objects, %d rounds, %d edits, %d statuses, %d tamperings, quiet for %s, %d locations, %d and %d objects at one, idle for %s, %d spaces with %d objects, %d reports at each location, %d watches, %d locations that walk %d objects, a fleet of %d with %d own objects each and %d shared, %d Summaries, %d born at one location, %d edits a second for %s, %d API objects",
		s.objects, s.rounds, s.edits, s.statuses, s.tamperings, s.quiet, s.locations, s.few, s.many, s.idle, s.spaces, s.stateObjects, s.reported, s.watches, s.walkers, s.walked, s.sites, s.ownEach, s.shared, s.summaries, s.born, s.editRate, s.editFor, s.apiObjects)
}
