package auth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/filters"

	"orrery.dev/orrery/internal/hub/storage/table"
)

// TestRefusalsShareReads: many refusals cause few reads of the log; each waits for a read that
// began after its request.
func TestRefusalsShareReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads, began atomic.Int64
		f := newFresh(func(context.Context) error {
			began.Store(time.Now().UnixNano())
			<-time.After(time.Millisecond)
			reads.Add(1)
			return nil
		})
		start := time.Now()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				for time.Since(start) < time.Second {
					came := time.Now().UnixNano()
					if err := f.wait(t.Context()); err != nil || began.Load() < came {
						t.Errorf("waited for a read of before: %v", err)
					}
				}
			})
		}
		all.Wait()
		if most := int64(time.Since(start)/freshEvery) + 1; reads.Load() > most || reads.Load() < most/2 {
			t.Errorf("%d reads, at most %d", reads.Load(), most)
		}
	})
}

// TestNobodyWaitsForOthers: a client that disconnects delays no other, and all clients of a round
// get its error.
func TestNobodyWaitsForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		answers, block := []error{away, nil}, make(chan struct{})
		f := newFresh(func(context.Context) error {
			<-block
			err := answers[0]
			answers = answers[1:]
			return err
		})
		led := make(chan error, 2)
		go func() { led <- f.wait(t.Context()) }()
		synctest.Wait()
		go func() { led <- f.wait(t.Context()) }() // leads the next round
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- f.wait(gone) }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who leaves waits on: %v", err)
		}
		close(block)
		if a, b := <-led, <-led; !errors.Is(a, away) || b != nil {
			t.Errorf("got %v and %v", a, b)
		}
	})
}

// TestRoundsRestOnNothing: the end of the leading request's conditions affects no other request.
func TestRoundsRestOnNothing(t *testing.T) {
	f := newFresh(func(ctx context.Context) error {
		if len(ConditionsOf(ctx)) > 0 {
			return errors.New("the round rests on its leader")
		}
		return nil
	})
	ctx := withConditions(t.Context())
	restOn(ctx, table.Condition{Key: "x"})
	if err := f.wait(ctx); err != nil || len(ConditionsOf(ctx)) != 1 {
		t.Errorf("got %v", err)
	}
}

// TestGrantedJustNow: before a request is refused, the table catches up with the log. Allowed
// requests do not wait.
func TestGrantedJustNow(t *testing.T) {
	w := newWorld(t)
	waited := 0
	g := sender{Info: named("jane"), t: t, authorizer: w.decides}.guard()
	g.fresh = newFresh(func(context.Context) error {
		if waited++; waited == 2 {
			w.grant("a", "jane", `{subjects: [{kind: User, name: jane}], roles: [{name: view}]}`)
		}
		if waited == 3 {
			return errors.New("away")
		}
		return nil
	})
	handler := WithRoot(filters.WithRequestInfo(g.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), newResolver()))
	for i, c := range []struct {
		target       string
		code, waited int
	}{
		{"/spaces/a/api/v1/pods", http.StatusForbidden, 1},
		{"/spaces/a/api/v1/pods", http.StatusOK, 2},
		{"/spaces/a/api/v1/pods", http.StatusOK, 2},
		{"/spaces/b/api/v1/pods", http.StatusInternalServerError, 3}, // the state of the log is unknown
		{"/spaces/b/api/v1/pods", http.StatusForbidden, 4},
	} {
		r := httptest.NewRequest(http.MethodGet, c.target, nil)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, r)
		if answer.Code != c.code || waited != c.waited {
			t.Errorf("%d: %d after %d waits, want %d after %d", i, answer.Code, waited, c.code, c.waited)
		}
	}
}

// TestConfirm: a request that has waited is not served if its conditions have ended in the
// meantime.
func TestConfirm(t *testing.T) {
	w := newWorld(t)
	const view = `{subjects: [{kind: User, name: jane}], roles: [{name: view}]}`
	w.grant("a", "jane", view)
	g := sender{Info: named("jane"), t: t, authorizer: w.decides}.guard()
	for _, c := range []struct {
		do   func()
		want bool
	}{
		{func() {}, true},
		{func() { w.grant("a", "other", view) }, true},
		{func() {
			w.grant("a", "jane", `{subjects: [{kind: Group, name: "system:authenticated"}], roles: [{name: edit}]}`)
		}, true},
		{func() { w.grant("a", "other", ""); w.grant("a", "jane", "") }, false},
	} {
		handler := g.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			c.do()
			if err := Confirm(r.Context(), w.table.Table); (err == nil) != c.want {
				t.Errorf("got %v", err)
			}
		}))
		answer := httptest.NewRecorder()
		WithRoot(filters.WithRequestInfo(handler, newResolver())).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/spaces/a/api/v1/pods", nil))
		if answer.Code != http.StatusOK {
			t.Fatal(answer.Code)
		}
	}
	if err := Confirm(t.Context(), w.table.Table); err != nil {
		t.Errorf("without a request: %v", err)
	}
}
