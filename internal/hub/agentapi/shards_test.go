package agentapi

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestSessionsOfShards checks that a new session of a shard's agent replaces its previous one, and
// does not affect other shards.
func TestSessionsOfShards(t *testing.T) {
	clock := time.Unix(1_000_000, 0)
	s := NewSessions(func() time.Time { return clock }, unpublished{})
	first, second := key.Session{Location: "paris", Shard: key.NewShard(1, 2)}, key.Session{Location: "paris", Shard: key.NewShard(2, 2)}
	open := func(id key.Session, want bool) LastSeen {
		t.Helper()
		is, seen := s.Connected(id)
		if is != want {
			t.Errorf("%s is connected: %t", id.Shard, is)
		}
		return seen
	}
	one, two := s.start(t.Context(), first, true, "", false), s.start(t.Context(), second, true, "", false)
	again := s.start(t.Context(), first, true, "", false)
	ended := func(session *openSession) bool {
		replaced, _ := s.ended(session)
		return replaced && session.ctx.Err() != nil
	}
	if !ended(one) || ended(two) || ended(again) || s.Count() != 2 {
		t.Error("a new session of the first ends that of the first alone")
	}
	s.end(one)
	open(first, true)
	s.Notify("paris")
	for _, mine := range []*openSession{again, two} {
		select {
		case <-mine.notify:
		default:
			t.Errorf("%s does not read its settings again", mine.id.Shard)
		}
	}
	clock = clock.Add(time.Minute)
	s.end(again)
	if seen := open(first, false); !seen.Ended.Equal(clock) {
		t.Errorf("ended at %s", seen.Ended)
	}
	if ctx, _ := s.inspector(first); ctx != nil {
		t.Error("the first is asked")
	}
	if ctx, _ := s.inspector(second); ctx == nil || !open(second, true).Ended.IsZero() {
		t.Error("the second is not asked")
	}
	s.TakenOver(second)
	if !ended(two) {
		t.Error("another hub has the second's")
	}
	s.end(two)
	s.Forget("paris")
	if open(second, false).Opened || s.Count() != 0 {
		t.Error("the location is not forgotten")
	}
}
