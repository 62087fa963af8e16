package controllers

import (
	"context"
	"time"

	"orrery.dev/orrery/internal/hub/auth/bearer"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// keepExpired is how long a token is stored after it has expired. Its users get a specific
	// error in that time, and a clock that was temporarily ahead deletes nothing.
	keepExpired = 7 * 24 * time.Hour
	// lookAgain bounds the wait for the expiry of a token, since the clock of the hub may be set.
	lookAgain = time.Hour
)

// tokenConfig contains the dependencies of the tokenController.
type tokenConfig struct {
	Table *table.Table
	Log   *etcd.Log
	Now   func() time.Time
}

// tokenController deletes unusable tokens: those that have expired, whose space no longer exists, or
// that were created from a token that no longer exists. Its keys are the IDs of tokens.
type tokenController struct{ config tokenConfig }

func (c *tokenController) watches() []watch {
	all, spaces := key.Tokens.Prefix(), key.ResourcePrefix(key.Root, key.Spaces)
	return []watch{follow(c.config.Table, source{prefixTopics(all, spaces), below(all), c.concerned})}
}

// concerned enqueues the tokens that a change of a token or a Space may affect.
func (c *tokenController) concerned(ch table.Change) []string {
	if key.ClassOf(ch.Row().Key) == key.Tokens {
		return c.byToken(ch)
	}
	return c.byTokenOfSpace(ch)
}

// byToken enqueues a changed token. If it was deleted, it enqueues the tokens that were created
// from it.
func (c *tokenController) byToken(ch table.Change) []string {
	id, _ := key.TokenOf(ch.Row().Key)
	if ch.Cur != nil {
		return []string{id}
	}
	return c.tokensThat(func(r *bearer.Record) bool { return r.From == id })
}

// byTokenOfSpace enqueues the tokens of a deleted space.
func (c *tokenController) byTokenOfSpace(ch table.Change) []string {
	if ch.Cur != nil && (ch.Prev == nil || ch.Cur.Meta.UID == ch.Prev.Meta.UID) {
		return nil
	}
	return c.tokensThat(func(r *bearer.Record) bool { return r.Scope != nil && r.Scope.Space.Key() == ch.Row().Key })
}

func (c *tokenController) tokensThat(are func(*bearer.Record) bool) (ids []string) {
	c.config.Table.Snapshot().Ascend(key.Tokens.Prefix(), func(row *table.Row) bool {
		if r, err := bearer.Read(row.Value); err == nil && are(&r) {
			id, _ := key.TokenOf(row.Key)
			ids = append(ids, id)
		}
		return true
	})
	return ids
}

func (c *tokenController) reconcile(ctx context.Context, id string) error {
	snapshot := c.config.Table.Snapshot()
	row := snapshot.Get(key.Token(id))
	if row == nil {
		return nil
	}
	r, err := bearer.Read(row.Value)
	if err != nil {
		return err
	}
	left := r.Expires.Add(keepExpired).Sub(c.config.Now())
	if left > 0 && isUsable(snapshot, &r) {
		return againError(min(left, lookAgain))
	}
	_, err = c.config.Log.Write(ctx, []etcd.Op{{Key: row.Key}}, etcd.Guard{Key: row.Key, CreateRev: row.CreateRev})
	return err
}

// isUsable reports whether the parent and the space of a token exist.
func isUsable(s *table.Snapshot, r *bearer.Record) bool {
	if r.From != "" && s.Get(key.Token(r.From)) == nil {
		return false
	}
	if r.Scope == nil || r.Scope.Space == key.Root {
		return true
	}
	space := s.Get(r.Scope.Space.Key())
	return space != nil && space.Meta.UID == r.Scope.UID
}
