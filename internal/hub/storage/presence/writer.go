package presence

import (
	"log/slog"
	"sync"
	"time"

	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// batchDelay is the time that a change waits for further changes, so that a thousand agents that
	// reconnect need few transactions.
	batchDelay = 10 * time.Millisecond
	// retryWrite is the delay after a failure, and awaitWritten limits the time until the table
	// contains a write.
	retryWrite, awaitWritten = time.Second, 10 * time.Second
)

// Patch changes fields of Said; nil fields stay.
type Patch struct {
	// Status is set together with SignedBy, and with Text: the status as the agent has sent it, or nil if
	// it has no fields that this version does not know.
	Status   *wire.AgentStatus
	Text     []byte
	SignedBy string
	Refused  *string
	Strange  *string
	Exceeds  *int
	LastSeen *time.Time

	// waiter receives the result of writing Status; nil if no caller waits.
	waiter *waiter
}

// Writer writes the sessions of this hub, and the statuses of agents, to the log. It writes only
// the last state of each, so the number of pending writes is at most the number of agents. It is
// safe for concurrent use; only Tell waits for the write.
type Writer struct {
	log    *etcd.Log
	table  *table.Table
	member *Member
	logger *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// mine are the sessions of this hub, and dirty those to write. patches are the pending patches of
	// the statuses of agents.
	mine    map[key.Session]Session
	dirty   map[key.Session]dirt
	patches map[key.Session]Patch
	// under are the leases that sessions were written under; only the writing goroutine uses it.
	under map[key.Session]*etcd.Lease
}

// dirt is the reason why a session is to be written.
type dirt bool

const (
	// moved: the session began or ended, which is newer than the writes of other hubs.
	moved dirt = true
	// released: the hub has a new lease. Writes of other hubs are newer.
	released dirt = false
)

// NewWriter returns a Writer, which writes while it runs.
func NewWriter(log *etcd.Log, table *table.Table, member *Member, logger *slog.Logger) *Writer {
	return &Writer{
		log: log, table: table, member: member, logger: logger, wake: make(chan struct{}, 1),
		mine: map[key.Session]Session{}, dirty: map[key.Session]dirt{}, patches: map[key.Session]Patch{},
		under: map[key.Session]*etcd.Lease{},
	}
}

// Begin records that this hub holds the session of an agent from now on.
func (w *Writer) Begin(agent key.Session, is Session) {
	is.Hub = w.member.ID()
	none, zero := "", 0
	w.mu.Lock()
	w.mine[agent], w.dirty[agent] = is, moved
	w.mu.Unlock()
	w.Say(agent, Patch{Refused: &none, Strange: &none, Exceeds: &zero})
}

// End records that this hub no longer holds it.
func (w *Writer) End(agent key.Session) {
	w.mu.Lock()
	delete(w.mine, agent)
	w.dirty[agent] = moved
	w.mu.Unlock()
	w.raise()
}

// Say records a patch of an agent's status.
func (w *Writer) Say(agent key.Session, now Patch) {
	if now.Status != nil { // before the lock: this takes time by the size of the status
		sent := *now.Status
		now.Status = bounded(sent)
		now.Text = textOf(now.Text, sent, now.Status)
	}
	w.mu.Lock()
	p := w.patches[agent]
	if now.Status != nil {
		p.waiter.answer(nil) // a newer status replaces it
		p.Status, p.Text, p.SignedBy, p.waiter = now.Status, now.Text, now.SignedBy, now.waiter
	}
	if now.Refused != nil {
		p.Refused = now.Refused
	}
	if now.Strange != nil {
		p.Strange = now.Strange
	}
	if now.Exceeds != nil {
		p.Exceeds = now.Exceeds
	}
	if now.LastSeen != nil {
		p.LastSeen = now.LastSeen
	}
	w.patches[agent] = p
	w.mu.Unlock()
	w.raise()
}

// claims reports whether this hub is about to write a session.
func (w *Writer) claims(agent key.Session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, mine := w.mine[agent]
	return mine && w.dirty[agent] == moved
}

func (w *Writer) raise() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
