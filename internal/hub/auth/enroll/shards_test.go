package enroll

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestShardsAreEnrolledApart: each agent that shares a location has a credential of its own,
// which is good for its shard alone; what happens to one's says nothing of the others.
func TestShardsAreEnrolledApart(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	record := ParseRecord(nil, "uid")
	join := func(number int) Credential {
		t.Helper()
		token, one := record.ForShard(number).WithJoin(edge, now.Add(time.Hour))
		if l, got, ok := TokenOf(token); !ok || l != edge || got != number {
			t.Errorf("token %s is of %s %d, %t", token, l, got, ok)
		}
		for other := 1; other <= 3; other++ {
			if _, _, err := record.With(one).ForShard(other).Trade(edge, token, "k", now); other != number && !errors.Is(err, ErrUnknownJoin) {
				t.Errorf("the token of shard %d is traded for %d: %v", number, other, err)
			}
		}
		c, one, err := one.Trade(edge, token, "k", now)
		if err != nil {
			t.Fatal(err)
		}
		record = ParseRecord(record.With(one).Encode(), "uid")
		return c
	}
	first, second := join(1), join(2)
	check := func(c Credential, number int) error {
		_, err := record.ForShard(number).Check(c)
		return err
	}
	if first.Shard > 1 || second.Shard != 2 || check(first, 1) != nil || check(second, 2) != nil {
		t.Fatalf("%+v %+v", first, second)
	}
	if !errors.Is(check(first, 2), ErrOther) || !errors.Is(check(second, 1), ErrOther) {
		t.Error("a credential is good for another shard")
	}
	before := record.Encode()
	next, one, err := record.ForShard(2).Renew(second, "k2")
	if err != nil {
		t.Fatal(err)
	}
	record = record.With(one.Use(next))
	if moved := Moved(before, record.Encode()); !reflect.DeepEqual(moved, []int{2}) {
		t.Errorf("moved: %v", moved)
	}
	if !errors.Is(check(second, 2), ErrSpent) || check(first, 1) != nil {
		t.Error("a renewal of the second is about another")
	}
	record = record.With(record.ForShard(2).Revoke(Revocation{Time: now, Message: "m"}))
	if !errors.Is(check(next, 2), ErrRevoked) || check(first, 1) != nil {
		t.Error("a revocation of the second is about another")
	}
	third := join(3)
	record = record.RevokeAll(Revocation{Time: now, Message: "m"})
	if !errors.Is(check(first, 1), ErrRevoked) || !errors.Is(check(third, 3), ErrRevoked) || len(record.All()) != key.MaxShards {
		t.Error("not all are revoked")
	}
	for _, token := range []string{"orr_j_x/1.s", "orr_j_x/0.s", "orr_j_x/33.s", "orr_j_x/a.s", "orr_j_x/2"} {
		if _, _, ok := TokenOf(token); ok {
			t.Errorf("%s is a token", token)
		}
	}
	if key.MaxShards < 3 {
		t.Error("too few")
	}
}
