package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
)

// ErrUnsent says that reports of spaces that are another agent's from now on were not sent yet.
var ErrUnsent = errors.New("reports of spaces that go to another agent are not sent yet")

// Serve makes the store that of a shard of the location, if it is of another one: it forgets
// what is of spaces of others, which changes nothing at the target, and the next session
// compares all that is desired. It fails with ErrUnsent while the hub lacks reports of what is
// to be forgotten, of which the other agent would not know. No other call may be under way.
func (s *Store) Serve(shard key.Shard) error {
	if s.Meta().Shard == shard {
		return nil
	}
	next := *s.Meta()
	if err := guarded(func() error {
		return s.db.Update(func(b *bolt.Tx) error {
			t := newTx(b, &next, s.box)
			if err := t.keepOnly(shard); err != nil {
				return err
			}
			if next.ID == "" {
				next.ID = rand.Text()
			}
			next.Shard, next.Gained, next.Survey, next.ReportsAgreed = shard, true, true, false
			return t.putMeta()
		})
	}); err != nil {
		return fmt.Errorf("make the store that of shard %s: %w (it is of %s)", shard, err, s.Meta().Shard)
	}
	s.current.Store(&next)
	return nil
}

// keepOnly forgets all that is of spaces that are not in a shard.
func (t *Tx) keepOnly(shard key.Shard) error {
	for _, one := range []struct {
		in    []byte
		space func(k string, v []byte) (key.Space, error)
		drop  func(k string) error
	}{
		{guardBucket, spaceOfValue, t.unguard},
		{recordBucket, spaceOfValue, t.Forget},
		{desiredBucket, spaceOfLine, t.dropDesired},
		{reportBucket, spaceOfLine, func(k string) error { return t.remove(reportBucket, k) }},
		{unsentBucket, spaceOfLine, func(string) error { return ErrUnsent }},
	} {
		var others []string
		if err := t.bucket(one.in).ForEach(func(k, v []byte) error {
			space, err := one.space(string(k), t.open(one.in, string(k), v))
			if err == nil && !shard.Has(space) {
				others = append(others, string(k))
			}
			return err
		}); err != nil {
			return err
		}
		for _, k := range others {
			if err := one.drop(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tx) dropDesired(k string) error {
	old, _, err := t.Want(k)
	if err != nil || old == nil {
		return err
	}
	return t.dropWant(k, old)
}

// spaceOfLine is the space of a desired entry or a report, by its key.
func spaceOfLine(k string, _ []byte) (key.Space, error) {
	report, err := key.ParseLine("", k)
	return report.Object.Space, err
}

// spaceOfValue is the space that a record, or a removal that waits, names.
func spaceOfValue(k string, v []byte) (key.Space, error) {
	var of struct {
		Space key.Space `json:"space"`
	}
	if err := json.Unmarshal(v, &of); err != nil {
		return "", fmt.Errorf("decode what is kept of %q: %w", k, err)
	}
	return of.Space, nil
}
