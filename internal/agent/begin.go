package agent

import (
	"errors"
	"time"
)

const (
	// beginEvery is how often an agent that has started finds out whether it may begin.
	beginEvery = 20 * time.Millisecond
	// sessionWithin is how long it waits for the hub, and listsWithin for lists of the target.
	sessionWithin = 10 * time.Second
	listsWithin   = time.Minute
)

// errOlder ends an agent whose store is older than what is at the target, once the hub has said
// hello to it.
var errOlder = errors.New("the data directory is older than the cluster: the agent begins again with a new store")

// errWritable ends an agent whose data directory can be written again.
var errWritable = errors.New("the data directory can be written again: the agent begins again and opens its store anew")

// beginsAgain reports whether another agent of the same configuration follows one that ended with an error.
func beginsAgain(err error) bool { return errors.Is(err, errOlder) || errors.Is(err, errWritable) }
