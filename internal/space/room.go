package space

import (
	"context"
	"strings"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// Write is a put for which there has to be room in the log.
type Write struct {
	Space key.Space
	// Bytes is the size of key and value.
	Bytes int
	// Grows says that it makes what is there larger, and Ends that it is a step of a
	// deletion, which may do so a little and makes room in the end.
	Grows, Ends bool
	// ByUser says that a client asked for it.
	ByUser bool
}

// Room has every put wait until there is room for it in the log.
type Room interface {
	// Admit returns when the write may be made, or says why it may not. done is told how
	// it ended, and returns what the client is to be told.
	Admit(ctx context.Context, w Write) (done func(error) error, err error)
}

// writeOf describes a put of value at a key of etcd.
func (l limits) writeOf(ctx context.Context, etcdKey string, value []byte) Write {
	k := strings.TrimPrefix(etcdKey, l.prefix)
	s, _, _, _ := key.Split(k)
	before, _ := l.table.Get(k)
	slack := l.usage.slack(k)
	return Write{
		Space: s, Bytes: len(k) + len(value), ByUser: byUser(ctx), Ends: goes(before, value, slack),
		Grows: grows(before, value, slack),
	}
}

// grows says whether a write makes what is there larger. What is being deleted needs
// other updates as well before it can go, of its status for instance, so it may a little.
func grows(before *table.Row, value []byte, slack int) bool {
	switch {
	case before == nil:
		return true
	case before.Meta.Deleting:
		return len(value) > len(before.Value)+slack
	}
	return len(value) > len(before.Value)
}

// endless is a log that always has room.
type endless struct{}

// Admit lets everything be written.
func (endless) Admit(context.Context, Write) (func(error) error, error) {
	return func(err error) error { return err }, nil
}
