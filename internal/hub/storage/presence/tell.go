package presence

import (
	"context"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// telling is a status that somebody waits for to be written. The Writer's lock guards withdrawn.
type telling struct {
	answered chan error
	// withdrawn says that nobody waits any more: it is not to be tried again.
	withdrawn bool
}

// answer ends the wait. It is called once; nil: nobody waits.
func (t *telling) answer(err error) {
	if t != nil {
		t.answered <- err
	}
}

// Statement is what an agent says of itself, as it has sent it.
type Statement struct {
	Status wire.AgentStatus
	// Text is the text of Status, which may have fields that this version does not know; nil: it has none.
	Text []byte
	// SignedBy names the authority of the credential that was used; empty: none.
	SignedBy string
}

// Tell is Say of what an agent says of itself, and returns when the log
// has that, or something newer that the agent has said to this hub. If it fails, nothing of it is
// written any more: what the agent says next may come to another hub, and what came before must
// not be written over it.
func (w *Writer) Tell(ctx context.Context, of key.Session, s Statement) error {
	t := &telling{answered: make(chan error, 1)}
	w.Say(of, Patch{Status: &s.Status, Text: s.Text, SignedBy: s.SignedBy, told: t})
	ctx, cancel := context.WithTimeout(ctx, awaitWritten)
	defer cancel()
	select {
	case err := <-t.answered:
		return err
	case <-ctx.Done():
		w.withdraw(of, t)
		return ctx.Err()
	}
}

// withdraw takes back what nobody waits for. A transaction that is under way with it may still
// write it, but over nothing newer: it compares what was there before.
func (w *Writer) withdraw(of key.Session, t *telling) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.withdrawn = true
	if p := w.said[of]; p.told == t {
		w.said[of] = p.untold()
	}
}

// untold is the patch without a status.
func (p Patch) untold() Patch {
	p.Status, p.Text, p.SignedBy, p.told = nil, nil, "", nil
	return p
}
