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
		token, part := record.Of(number).WithJoin(edge, now.Add(time.Hour))
		if l, of, ok := TokenOf(token); !ok || l != edge || of != number {
			t.Errorf("token %s is of %s %d, %t", token, l, of, ok)
		}
		for other := 1; other <= 3; other++ {
			if _, _, err := record.With(part).Of(other).Trade(edge, token, "k", now); other != number && !errors.Is(err, ErrUnknownJoin) {
				t.Errorf("the token of shard %d is traded for %d: %v", number, other, err)
			}
		}
		c, part, err := part.Trade(edge, token, "k", now)
		if err != nil {
			t.Fatal(err)
		}
		record = ParseRecord(record.With(part).Encode(), "uid")
		return c
	}
	first, second := join(1), join(2)
	judge := func(c Credential, number int) error {
		_, err := record.Of(number).Judge(c)
		return err
	}
	if first.Shard > 1 || second.Shard != 2 || judge(first, 1) != nil || judge(second, 2) != nil {
		t.Fatalf("%+v %+v", first, second)
	}
	if !errors.Is(judge(first, 2), ErrOther) || !errors.Is(judge(second, 1), ErrOther) {
		t.Error("a credential is good for another shard")
	}
	before := record.Encode()
	next, part, err := record.Of(2).Renew(second, "k2")
	if err != nil {
		t.Fatal(err)
	}
	record = record.With(part.Use(next))
	if moved := Moved(before, record.Encode()); !reflect.DeepEqual(moved, []int{2}) {
		t.Errorf("moved: %v", moved)
	}
	if !errors.Is(judge(second, 2), ErrSpent) || judge(first, 1) != nil {
		t.Error("a renewal of the second is about another")
	}
	record = record.With(record.Of(2).Revoke(Revocation{At: now, Message: "m"}))
	if !errors.Is(judge(next, 2), ErrRevoked) || judge(first, 1) != nil {
		t.Error("a revocation of the second is about another")
	}
	third := join(3)
	record = record.RevokeAll(Revocation{At: now, Message: "m"})
	if !errors.Is(judge(first, 1), ErrRevoked) || !errors.Is(judge(third, 3), ErrRevoked) || len(record.All()) != key.MaxShards {
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
