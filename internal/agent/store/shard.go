package store

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"orrery.dev/orrery/internal/protocol/key"
)

// ErrUnsent is returned while the hub lacks reports of spaces that another agent serves from now on.
var ErrUnsent = errors.New("reports of spaces that go to another agent are not sent yet")

// Serve makes the store serve a shard of the location, if it serves another one. It removes the entries of
// other spaces from the store and changes nothing at the cluster. The next session compares all desired
// objects. Serve fails with ErrUnsent while the hub lacks reports that it would remove, because the other
// agent does not have them. No other call may be in progress.
func (s *Store) Serve(shard key.Shard) error {
	if s.Meta().Shard == shard {
		return nil
	}
	if _, err := s.commit(func(t *Tx) error {
		if err := t.keepOnly(shard); err != nil {
			return err
		}
		m := t.meta
		if m.ID == "" {
			m.ID = rand.Text()
		}
		m.Shard, m.Gained, m.SearchPending, m.ReportsAgreed = shard, true, true, false
		return nil
	}); err != nil {
		return fmt.Errorf("make the store serve shard %s: %w (it serves %s)", shard, err, s.Meta().Shard)
	}
	return nil
}

// keepOnly removes all entries of spaces that are not in a shard.
func (t *Tx) keepOnly(shard key.Shard) error {
	for _, b := range []struct {
		name   []byte
		space  func(k string, v []byte) (key.Space, error)
		remove func(k string) error
	}{
		{guardBucket, spaceOfValue, t.Removals.delete},
		{recordBucket, spaceOfValue, t.Forget},
		{desiredBucket, spaceOfLine, t.removeDesired},
		{reportBucket, spaceOfLine, t.Reports.delete},
		{unsentBucket, spaceOfLine, func(string) error { return ErrUnsent }},
	} {
		var others []string
		if err := t.bucket(b.name).ForEach(func(k, v []byte) error {
			space, err := b.space(string(k), t.open(b.name, string(k), v))
			if err == nil && !shard.Contains(space) {
				others = append(others, string(k))
			}
			return err
		}); err != nil {
			return err
		}
		for _, k := range others {
			if err := b.remove(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tx) removeDesired(path string) error {
	old, _, err := t.Desired.Get(path)
	if err != nil || old == nil {
		return err
	}
	return t.Desired.delete(path, old)
}

// spaceOfLine returns the space of a desired entry or report, by its key.
func spaceOfLine(k string, _ []byte) (key.Space, error) {
	report, err := key.ParseLine("", k)
	return report.Object.Space, err
}

// spaceOfValue returns the space in the value of a record or pending removal.
func spaceOfValue(k string, v []byte) (key.Space, error) {
	var value struct {
		Space key.Space `json:"space"`
	}
	if err := json.Unmarshal(v, &value); err != nil {
		return "", fmt.Errorf("decode the entry of %q: %w", k, err)
	}
	return value.Space, nil
}
