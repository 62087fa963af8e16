package mapper

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

func refusedWith(code, after int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Details: &metav1.StatusDetails{RetryAfterSeconds: after}}}
}

// bottleneck is a target that serves so many at once and refuses the rest.
type bottleneck struct {
	mu            sync.Mutex
	under, serves int
	most, refused int
}

func (b *bottleneck) request(took time.Duration) error {
	b.mu.Lock()
	b.under++
	b.most = max(b.most, b.under)
	full := b.under > b.serves
	if full {
		b.refused++
	}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.under--
		b.mu.Unlock()
	}()
	if full {
		<-time.After(time.Millisecond) // of the bubble's clock
		return refusedWith(http.StatusTooManyRequests, 0)
	}
	<-time.After(took)
	return nil
}

// drive works on objects without end for a time, and returns how many were done.
func drive(t *testing.T, p *pace, b *bottleneck, length time.Duration) (done int) {
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var workers sync.WaitGroup
	var mu sync.Mutex
	for range mostPace {
		workers.Go(func() {
			for p.acquire(ctx) {
				p.begin(ctx)
				start := time.Now()
				err := b.request(10 * time.Millisecond)
				p.answered(time.Since(start), err)
				p.end()
				p.release()
				if err == nil {
					mu.Lock()
					done++
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return done
}

// TestPaceFollowsTheTarget shows that the pace grows to its bound at a target
// that takes all, and settles near what one takes that refuses the rest.
func TestPaceFollowsTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, wide := newPace(mostPace), &bottleneck{serves: 1000}
		drive(t, p, wide, 5*time.Second)
		if wide.most != mostPace || p.now() != mostPace {
			t.Errorf("at most %d at once, pace %d", wide.most, p.now())
		}
		narrow := &bottleneck{serves: 12}
		done := drive(t, p, narrow, 30*time.Second)
		if best := 12 * 30 * 100; done < best*6/10 || narrow.refused > done/20 {
			t.Errorf("%d of %d were done, %d refused", done, best, narrow.refused)
		}
		done = drive(t, p, &bottleneck{serves: 1000}, 30*time.Second)
		if p.now() != mostPace || done < 5000*30*9/10 {
			t.Errorf("%d were done when the target was well again, pace %d", done, p.now())
		}
	})
}

func TestPaceKeepsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(mostPace)
		p.answered(time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		if p.now() != startPace/2 {
			t.Errorf("pace %d", p.now())
		}
		start := time.Now()
		if !p.acquire(t.Context()) {
			t.Fatal("not let in")
		}
		if p.begin(t.Context()); time.Since(start) != 7*time.Second {
			t.Errorf("began after %s", time.Since(start))
		}
		for range 100 { // over a long time
			p.answered(time.Millisecond, refusedWith(http.StatusServiceUnavailable, 0))
			pause(t.Context(), time.Second)
		}
		if p.now() != leastPace {
			t.Errorf("pace %d", p.now())
		}
		// A refusal of one object says nothing of the target.
		q := newPace(mostPace)
		q.answered(time.Millisecond, refusedWith(http.StatusUnprocessableEntity, 0))
		if q.now() != startPace {
			t.Errorf("pace %d after a refusal", q.now())
		}
	})
}

// TestPaceAtASlowTarget shows that a target whose answers take long is not asked
// for more at once.
func TestPaceAtASlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(mostPace)
		p.answered(time.Millisecond, nil)
		for range 2000 {
			p.answered(2*time.Second, nil)
			pause(t.Context(), 10*time.Millisecond)
		}
		if p.now() > startPace {
			t.Errorf("pace %d", p.now())
		}
	})
}

func objectOf(space key.Space, resource string, i int) key.Object {
	return key.Object{Space: space, Identity: parseIdentity(fmt.Sprintf("%s/%s-%d", resource, space, i))}
}

// TestSpacesTakeTurns shows that a space with much to do does not keep others
// waiting.
func TestSpacesTakeTurns(t *testing.T) {
	e := newEngine()
	e.kindsChanged = func() {}
	var all []touched
	for i := range 1000 {
		all = append(all, touched{object: objectOf("big", "core/configmaps/n", i), want: putWant("1", "a")})
	}
	for i := range 5 {
		all = append(all, touched{object: objectOf("small", "core/configmaps/n", i), want: putWant("1", "a")})
	}
	e.touch(all)
	small := 0
	for range 10 {
		if it, _ := e.next(t.Context()); it.home() == "small" {
			small++
		}
	}
	if small != 5 {
		t.Errorf("%d of the first 10 were of the small space", small)
	}
	e.queue.later = nil
}

// TestNothingStarves works on a kind whose every object fails after a long time,
// on an object that changes without end, and on others. The others are all done
// as if they were alone.
func TestNothingStarves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine()
		defer e.stop()
		e.kindsChanged = func() {}
		hot := objectOf("s", "core/configmaps/hot", 0)
		all := []touched{{object: hot, want: putWant("1", "a")}}
		for i := range 200 {
			all = append(all,
				touched{object: objectOf("s", "core/secrets/n", i), want: putWant("1", "a")},     // fail
				touched{object: objectOf("s", "apps/deployments/n", i), want: putWant("1", "a")}) // are well
		}
		e.touch(all)
		ctx, cancel := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		var mu sync.Mutex
		well, hots := 0, 0
		var lastWell time.Duration
		start := time.Now()
		for range 8 {
			workers.Go(func() {
				for {
					it, ok := e.next(ctx)
					if !ok {
						return
					}
					r := result{wanted: true, state: wire.Applied}
					switch it.kind.resource.Resource {
					case "secrets":
						pause(ctx, 10*time.Second)
						r = result{wanted: true, failed: true, retry: time.Second}
					case "deployments":
						pause(ctx, 10*time.Millisecond)
						mu.Lock()
						well, lastWell = well+1, time.Since(start)
						mu.Unlock()
					default:
						pause(ctx, 10*time.Millisecond)
						mu.Lock()
						hots++
						mu.Unlock()
						e.touch(all[:1]) // it has changed already
					}
					e.finish(it, r)
				}
			})
		}
		pause(ctx, 5*time.Minute)
		cancel()
		workers.Wait()
		if well != 200 || lastWell > 15*time.Second {
			t.Errorf("%d were done, the last one after %s", well, lastWell)
		}
		if hots < 1000 {
			t.Errorf("the one that changes was done %d times", hots)
		}
	})
}
