package store

import (
	"bytes"
	"errors"
	"sync"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
)

// Root is an object at the target that was placed, with what is asked for of those that it
// owns.
type Root struct {
	// Source is what it is called in its space, Identity what it is at the target.
	Source   key.Object
	Identity key.Identity
	// UID is that of the object at the target.
	UID string
	// Associated is that of its policy.
	Associated string
}

// RootAt is the placed object of an identity, if it may be one's whose associated objects are
// asked for: what a ServiceAccount is in charge of is not, since the agent would read what that
// may not. False: there is none.
func (t *Tx) RootAt(id key.Identity) (Root, bool, error) {
	rec, err := t.Record(id.String())
	if err != nil || rec == nil {
		return Root{}, false, err
	}
	at := key.Located{Object: key.Object{Space: rec.Space, Identity: id}, Moved: rec.Moved}
	policy := rec.Source.Policy // the last, once the object is not desired any more
	w, _, err := t.Want(at.Source().Path())
	if err != nil {
		return Root{}, false, err
	}
	if w != nil && w.Object() != nil {
		policy = w.Object().Policy
	}
	ok := policy.Associated != "" && policy.ServiceAccount == "" && rec.Source.Policy.ServiceAccount == ""
	return Root{at.Source(), id, rec.UID, policy.Associated}, ok, nil
}

// associated is that of the entry's policy; empty if there is no entry.
func (w *Want) associated() string {
	if w == nil || w.Object() == nil {
		return ""
	}
	return w.Object().Policy.Associated
}

// noteRoot notes that the associated objects of a path may be others.
func (t *Tx) noteRoot(path string) error {
	o, err := key.ParsePath(path)
	if err == nil {
		t.noteRootAt(t.place(o).Identity.String())
	}
	return err
}

func (t *Tx) noteRootAt(id string) {
	if t.roots == nil {
		t.roots = map[string]struct{}{}
	}
	t.roots[id] = struct{}{}
}

// RootNews tells of what may be other Roots than before. It is safe for concurrent use.
type RootNews struct {
	// Signal is raised when there are some.
	Signal retry.Signal

	mu  sync.Mutex
	ids map[string]struct{}
}

// Take returns the identities that were noted since the last time.
func (n *RootNews) Take() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	ids := n.ids
	n.ids = nil
	return ids
}

func (n *RootNews) add(ids map[string]struct{}) {
	if len(ids) == 0 {
		return
	}
	n.mu.Lock()
	if n.ids == nil {
		n.ids = ids
	} else {
		for id := range ids {
			n.ids[id] = struct{}{}
		}
	}
	n.mu.Unlock()
	n.Signal.Raise()
}

// Roots tells of roots that may be others than before.
func (s *Store) Roots() *RootNews { return &s.roots }

// EachRoot calls f with each Root of which associated objects are asked for.
func (s *Store) EachRoot(f func(Root) error) error {
	ids := map[string]struct{}{}
	asks := []byte(`"associated":`)
	note := func(bucket []byte, of func(t *Tx, k string) (string, error)) error {
		return s.scan(bucket, func(t *Tx, k string, v []byte) error {
			head, _, _ := bytes.Cut(v, []byte("\n")) // of an entry, what is not its object
			if !bytes.Contains(head, asks) {
				return nil
			}
			id, err := of(t, k)
			ids[id] = struct{}{}
			return err
		})
	}
	if err := errors.Join(
		note(desiredBucket, func(t *Tx, k string) (string, error) {
			o, err := key.ParsePath(k)
			return t.place(o).Identity.String(), err
		}),
		note(recordBucket, func(_ *Tx, k string) (string, error) { return k, nil }),
	); err != nil {
		return err
	}
	for text := range ids {
		id, err := key.ParseIdentity(text)
		if err != nil {
			return err
		}
		var r Root
		var ok bool
		if err := s.View(func(t *Tx) (err error) {
			r, ok, err = t.RootAt(id)
			return err
		}); err != nil {
			return err
		}
		if !ok {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}
