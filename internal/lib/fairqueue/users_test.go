package fairqueue

import (
	"fmt"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fill takes turns for a flow until none is left for it.
func fill(q *Queue, flow Flow) (leaves []func()) {
	for {
		leave, err := q.Try(flow)
		if err != nil {
			return leaves
		}
		leaves = append(leaves, leave)
	}
}

// TestUsersShare: a user with many flows has no more turns than with one. Many users of one flow
// have no more than that flow may have. Any number of users together leaves some turns for the next
// user, and for users that may have reserved turns.
func TestUsersShare(t *testing.T) {
	q := NewQueue(Defaults(160))
	all := 0
	for i, want := range []int{113, 28, 7, 2, 0} {
		count := 0
		for j := range 5 {
			count += len(fill(q, Flow{Name: fmt.Sprint(i, "/", j), User: fmt.Sprint(i)}))
		}
		if all += count; count < want {
			t.Errorf("user %d has %d of the turns, want at least %d", i, count, want)
		}
	}
	if all > 150 {
		t.Errorf("users have %d of 160 turns, of which 10 are reserved", all)
	}
	if got := len(fill(q, Flow{Name: "x", User: "operator", Reserved: true})); got < 5 {
		t.Errorf("an operator has %d turns", got)
	}

	q = NewQueue(Defaults(160))
	count := 0
	for i := range 50 {
		count += len(fill(q, Flow{Name: "one", User: fmt.Sprint(i)}))
	}
	if count > 140 {
		t.Errorf("50 users of one flow have %d of 160 turns", count)
	}
	if leave, err := q.Try(Flow{Name: "another", User: "next"}); err != nil {
		t.Error(err)
	} else {
		leave()
	}
}

// TestUsersTakeTurns: waiting users are served in rotation, regardless of the number of their
// flows, and so are the flows of a user. Nothing is left behind.
func TestUsersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := Defaults(1)
		config.Queue = 10
		q := NewQueue(config)
		leave, err := q.Try(Flow{Name: "first"})
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 9)
		enter := func(user, name string) {
			go func() {
				leave, err := q.Enter(t.Context(), Flow{Name: name, User: user})
				if err != nil {
					t.Error(err)
					return
				}
				order <- user + "/" + name
				leave()
			}()
			synctest.Wait()
		}
		for range 2 {
			enter("jane", "a")
			enter("jane", "b")
			enter("jane", "c")
		}
		enter("joe", "c")
		enter("joe", "c")
		enter("jim", "c")
		leave()
		synctest.Wait()
		for _, want := range []string{"jane/a", "joe/c", "jim/c", "jane/b", "joe/c", "jane/c", "jane/a", "jane/b", "jane/c"} {
			if got := <-order; got != want {
				t.Errorf("served %s, want %s", got, want)
			}
		}
		if len(q.users)+len(q.names)+len(q.ring) != 0 {
			t.Errorf("left behind: %v %v %v", q.users, q.names, q.ring)
		}
	})
}

// TestBudget: bytes are shared like turns, and returned once.
func TestBudget(t *testing.T) {
	const total = 1600
	b := NewBudget(total)
	take := func(flow Flow, bytes int64) (releases []func()) {
		for {
			release, err := b.Take(flow, bytes)
			if err != nil {
				if !apierrors.IsTooManyRequests(err) {
					t.Error(err)
				}
				return releases
			}
			releases = append(releases, release)
		}
	}
	jane := take(Flow{Name: "a", User: "jane"}, 10)
	if more := take(Flow{Name: "b", User: "jane"}, 10); len(more) > 0 || len(jane) < 100 || len(jane) > 120 {
		t.Errorf("a user has %d and %d of 160", len(jane), len(more))
	}
	if jim := take(Flow{Name: "a", User: "jim"}, 10); len(jim) != 1 {
		t.Errorf("another user of a flow that has its part has %d", len(jim))
	}
	joe := take(Flow{Name: "c", User: "joe"}, 10)
	if len(joe) == 0 {
		t.Error("another user has none")
	}
	for i := range 20 {
		take(Flow{Name: fmt.Sprint(i), User: fmt.Sprint(i)}, 10)
	}
	if operator := take(Flow{Name: "x", User: "op", Reserved: true}, 10); len(operator) == 0 {
		t.Error("an operator has none")
	}
	before := b.Used()
	for _, release := range append(jane, joe...) {
		release()
		release()
	}
	if freed := before - b.Used(); freed != int64(10*(len(jane)+len(joe))) {
		t.Errorf("%d are given back of %d", freed, 10*(len(jane)+len(joe)))
	}
	if _, err := b.Take(Flow{Name: "large"}, total); !apierrors.IsTooManyRequests(err) {
		t.Errorf("more than there is: %v", err)
	}
}
