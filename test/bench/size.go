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
	// loaded objects are placed for the memory of an agent, which then has idle
	// time to come to rest.
	loaded int
	idle   time.Duration
	// apiObjects are created and applied per round by apiClients.
	apiObjects, apiRounds, apiClients int
}

func fullSize() size {
	return size{
		objects: 1000, rounds: 5,
		edits: 300, statuses: 100, tamperings: 100,
		calm: 3 * time.Second, quiet: 30 * time.Second,
		spread: []int{1, 10, 100}, locations: 1000, waves: 5,
		loaded: 5000, idle: 2 * time.Minute,
		apiObjects: 2000, apiRounds: 3, apiClients: 16,
	}
}

// quickSize is as small as can be with every number still made.
func quickSize() size {
	return size{
		objects: 20, rounds: 1,
		edits: 5, statuses: 3, tamperings: 3,
		calm: time.Second, quiet: time.Second,
		spread: []int{1, 10, 100}, locations: 120, waves: 1,
		loaded: 50, idle: 0,
		apiObjects: 50, apiRounds: 1, apiClients: 4,
	}
}

func (s size) String() string {
	return fmt.Sprintf("%d objects, %d rounds, %d edits, %d statuses, %d tamperings, quiet for %s, %d locations, %d objects in memory, idle for %s, %d API objects",
		s.objects, s.rounds, s.edits, s.statuses, s.tamperings, s.quiet, s.locations, s.loaded, s.idle, s.apiObjects)
}
