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
	// linger is how long what is to be written waits for more, so that a thousand agents that
	// connect anew take few transactions.
	linger = 10 * time.Millisecond
	// retryWrite is how long it waits after a failure, and awaitWritten bounds how long for the
	// table to show what was written.
	retryWrite, awaitWritten = time.Second, 10 * time.Second
)

// Patch is what becomes otherwise of Said; nil: it stays.
type Patch struct {
	// Status comes with SignedBy, and with Text, which is the status as the agent has sent it; nil: it has no
	// fields that this version does not know.
	Status   *wire.AgentStatus
	Text     []byte
	SignedBy string
	Refused  *string
	Strange  *string
	Exceeds  *int
	Heard    *time.Time

	// told is answered when Status is written, or will not be; nil: nobody waits.
	told *telling
}

// Writer brings the sessions of this hub, and what agents say, into the log. Of each it writes
// what is so last, so what waits is bounded by the number of agents. It is safe for concurrent
// use; only who tells a status waits for it.
type Writer struct {
	log    *etcd.Log
	table  *table.Table
	member *Member
	logger *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// mine are the sessions of this hub; dirty are those to be written. said has what waits to
	// be written of what agents say.
	mine  map[key.Session]Session
	dirty map[key.Session]dirt
	said  map[key.Session]Patch
	// under are the leases that sessions were written under; of the writing goroutine alone.
	under map[key.Session]*etcd.Lease
}

// dirt is why a session is to be written.
type dirt bool

const (
	// moved: it has begun or ended, which is newer than what another hub has written.
	moved dirt = true
	// released: the hub has a new lease. What another hub has written is newer.
	released dirt = false
)

// NewWriter makes a Writer, which writes while it runs.
func NewWriter(log *etcd.Log, table *table.Table, member *Member, logger *slog.Logger) *Writer {
	return &Writer{
		log: log, table: table, member: member, logger: logger, wake: make(chan struct{}, 1),
		mine: map[key.Session]Session{}, dirty: map[key.Session]dirt{}, said: map[key.Session]Patch{},
		under: map[key.Session]*etcd.Lease{},
	}
}

// Begin notes that this hub has the session of an agent from now on.
func (w *Writer) Begin(of key.Session, is Session) {
	is.Hub = w.member.ID()
	none, zero := "", 0
	w.mu.Lock()
	w.mine[of], w.dirty[of] = is, moved
	w.mu.Unlock()
	w.Say(of, Patch{Refused: &none, Strange: &none, Exceeds: &zero})
}

// End notes that it has it no longer.
func (w *Writer) End(of key.Session) {
	w.mu.Lock()
	delete(w.mine, of)
	w.dirty[of] = moved
	w.mu.Unlock()
	w.raise()
}

// Say notes what an agent says of itself, or is to be said of it.
func (w *Writer) Say(of key.Session, now Patch) {
	w.mu.Lock()
	p := w.said[of]
	if now.Status != nil {
		p.told.answer(nil) // what is newer comes in its place
		p.Status, p.SignedBy, p.told = bounded(*now.Status), now.SignedBy, now.told
		p.Text = textOf(now.Text, *now.Status, p.Status)
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
	if now.Heard != nil {
		p.Heard = now.Heard
	}
	w.said[of] = p
	w.mu.Unlock()
	w.raise()
}

// claims says that this hub is about to write that it has a session.
func (w *Writer) claims(of key.Session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, mine := w.mine[of]
	return mine && w.dirty[of] == moved
}

func (w *Writer) raise() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
