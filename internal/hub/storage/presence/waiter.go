package presence

import (
	"context"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// waiter is a caller that waits until a status is written. The Writer's lock guards withdrawn.
type waiter struct {
	answered chan error
	// withdrawn reports that the caller no longer waits, so the write is not retried.
	withdrawn bool
}

// answer ends the wait. It is called once; nil if no caller waits.
func (t *waiter) answer(err error) {
	if t != nil {
		t.answered <- err
	}
}

// Statement is the status that an agent has sent.
type Statement struct {
	Status wire.AgentStatus
	// Text is the received text of Status, which may have fields that this version does not know; nil if
	// it has none.
	Text []byte
	// SignedBy names the authority of the credential that was used; empty if there is none.
	SignedBy string
}

// Tell is Say for a status from an agent. It returns when the log contains the status, or a newer one
// that the agent sent to this hub. If it fails, the status is not written later: the agent may send its
// next status to another hub, and an older one must not overwrite that.
func (w *Writer) Tell(ctx context.Context, agent key.Session, s Statement) error {
	t := &waiter{answered: make(chan error, 1)}
	w.Say(agent, Patch{Status: &s.Status, Text: s.Text, SignedBy: s.SignedBy, waiter: t})
	ctx, cancel := context.WithTimeout(ctx, awaitWritten)
	defer cancel()
	select {
	case err := <-t.answered:
		return err
	case <-ctx.Done():
		w.withdraw(agent, t)
		return ctx.Err()
	}
}

// withdraw cancels a write that no caller waits for. A running transaction may still write it, but
// not over a newer status, since it compares the previous value.
func (w *Writer) withdraw(agent key.Session, t *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.withdrawn = true
	if p := w.patches[agent]; p.waiter == t {
		w.patches[agent] = p.withoutStatus()
	}
}

// withoutStatus returns the patch without its status.
func (p Patch) withoutStatus() Patch {
	p.Status, p.Text, p.SignedBy, p.waiter = nil, nil, "", nil
	return p
}
