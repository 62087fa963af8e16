package agent

import (
	"errors"
	"time"
)

const (
	// beginEvery is the interval at which a started agent checks whether it may act.
	beginEvery = 20 * time.Millisecond
	// sessionWithin bounds its wait for the hub, and listsWithin for lists of the target.
	sessionWithin = 10 * time.Second
	listsWithin   = time.Minute
)

// errOlder ends an agent whose store is older than the target, once it has received a hello.
var errOlder = errors.New("the data directory is older than the cluster: the agent begins again with a new store")

// errWritable ends an agent whose data directory can be written again.
var errWritable = errors.New("the data directory can be written again: the agent begins again and opens its store anew")

// beginsAgain reports whether another agent with the same configuration runs after one that ended with err.
func beginsAgain(err error) bool { return errors.Is(err, errOlder) || errors.Is(err, errWritable) }
