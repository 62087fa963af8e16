package kubeclient

import (
	"context"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/test/support/seeds"
)

func refusedWith(code, after int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Details: &metav1.StatusDetails{RetryAfterSeconds: after}}}
}

// server is a target that accepts or rejects a request at once, and responds to an accepted one
// after latency. A rejection asks to repeat the request after retryAfter seconds.
type server struct {
	mu         sync.Mutex
	random     *rand.Rand           // guarded by mu
	admits     func(under int) bool // with this number of concurrent requests
	latency    time.Duration
	retryAfter int32
	overhead   time.Duration // a worker's time besides its request
	// under is the number of concurrent requests, most its maximum; done and refused count responses.
	under, most, done, refused int
}

// roomFor admits n concurrent requests, like the flag --max-requests-inflight of an API server.
func roomFor(n int) func(int) bool { return func(under int) bool { return under <= n } }

// bucket admits rate requests per second, as a token bucket with the given capacity.
func bucket(rate, capacity float64) func(int) bool {
	tokens, last := capacity, time.Now()
	return func(int) bool {
		now := time.Now()
		tokens = min(capacity, tokens+rate*now.Sub(last).Seconds())
		last = now
		if tokens < 1 {
			return false
		}
		tokens--
		return true
	}
}

func (s *server) request() error {
	s.mu.Lock()
	s.under++
	s.most = max(s.most, s.under)
	ok := s.admits(s.under)
	if !ok {
		s.refused++
	}
	took := time.Millisecond // of the bubble's clock, as all times here
	if ok {
		took = s.latency*3/4 + time.Duration(s.random.Int64N(int64(s.latency/2)))
	}
	s.mu.Unlock()
	<-time.After(took)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	if !ok {
		return refusedWith(http.StatusTooManyRequests, s.retryAfter)
	}
	s.done++
	return nil
}

// work is the work for one object: a request, with the overhead before and after it.
func (s *server) work(ctx context.Context, p *Limiter) (err error, sent bool) {
	s.busy()
	if err := p.send(ctx); err != nil {
		return err, false
	}
	start := time.Now()
	err = s.request()
	p.answered(time.Since(start), err)
	s.busy()
	return err, true
}

// busy waits for half of the overhead. It does not wait for 0: in a bubble with the race detector, a timer that has
// fired before the wait ends the process (Go 1.26, runtime.timer.maybeRunChan).
func (s *server) busy() {
	if s.overhead > 0 {
		<-time.After(s.overhead / 2)
	}
}

// endless is a number of objects that no test finishes.
const endless = 1 << 20

// drive works on endless objects for a time, and returns the number of finished ones.
func drive(t *testing.T, p *Limiter, s *server, length time.Duration) int {
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var workers sync.WaitGroup
	for range MaxWorkers {
		workers.Go(func() {
			for p.Acquire(ctx) {
				if err, sent := s.work(p.Begin(ctx, endless), p); sent && err == nil {
					done.Add(1)
				}
				p.Release()
			}
		})
	}
	workers.Wait()
	return int(done.Load())
}

// TestLimiterFollowsTheTarget checks that most of the requests that a target allows are sent, with
// few rejections.
func TestLimiterFollowsTheTarget(t *testing.T) {
	const length = time.Minute
	for name, c := range map[string]struct {
		admits     func() func(int) bool
		latency    time.Duration
		retryAfter int32
		allows     float64 // in a second
		share      float64 // minimum share of that
		refused    float64 // maximum of rejections for each finished object
	}{
		"room for all":              {func() func(int) bool { return roomFor(1000) }, 50 * time.Millisecond, 1, MaxRequests * 20, 0.9, 0},
		"room for 1":                {func() func(int) bool { return roomFor(1) }, 10 * time.Millisecond, 1, 100, 0.9, 0.02},
		"room for 4":                {func() func(int) bool { return roomFor(4) }, 10 * time.Millisecond, 1, 400, 0.9, 0.01},
		"room for 4, says no time":  {func() func(int) bool { return roomFor(4) }, 10 * time.Millisecond, 0, 400, 0.9, 0.01},
		"room for 4, slow":          {func() func(int) bool { return roomFor(4) }, 300 * time.Millisecond, 1, 4 / 0.3, 0.8, 0.05},
		"room for 40":               {func() func(int) bool { return roomFor(40) }, 20 * time.Millisecond, 1, 2000, 0.9, 0.01},
		"200 a second":              {func() func(int) bool { return bucket(200, 20) }, 10 * time.Millisecond, 1, 200, 0.7, 0.1},
		"1000 a second, far away":   {func() func(int) bool { return bucket(1000, 100) }, 50 * time.Millisecond, 1, 1000, 0.7, 0.02},
		"20 a second":               {func() func(int) bool { return bucket(20, 20) }, 10 * time.Millisecond, 1, 20, 0.7, 0.15},
		"20 a second, says no time": {func() func(int) bool { return bucket(20, 20) }, 10 * time.Millisecond, 0, 20, 0.7, 0.15},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{random: seeds.Rand(t, 1), admits: c.admits(), latency: c.latency, retryAfter: c.retryAfter}
				drive(t, newLimiter(MaxWorkers), s, length)
				share, refused := float64(s.done)/c.allows/length.Seconds(), float64(s.refused)/float64(s.done)
				t.Logf("%.2f of what is allowed; %.3f refusals for each; at most %d at once", share, refused, s.most)
				if share < c.share || refused > c.refused {
					t.Error("want another share or fewer refusals")
				}
			})
		})
	}
}

// TestLimiterFillsTheRoom checks that the overhead of workers leaves no request slot unused.
func TestLimiterFillsTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, latency, length = 4, 4 * time.Millisecond, time.Minute
		s := &server{random: seeds.Rand(t, 1), admits: roomFor(room), latency: latency, retryAfter: 1, overhead: latency / 3}
		drive(t, newLimiter(MaxWorkers), s, length)
		if share := float64(s.done) / (room * float64(length/latency)); share < 0.9 {
			t.Errorf("%.2f of what is allowed", share)
		}
	})
}

// TestLimiterRecovers checks that the limit follows a target that accepts fewer requests for some
// time, and one that rejects all requests.
func TestLimiterRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLimiter(MaxWorkers)
		for _, room := range []int{12, 0, 2} {
			narrow := &server{random: seeds.Rand(t, 1), admits: roomFor(room), latency: 20 * time.Millisecond, retryAfter: 5}
			drive(t, p, narrow, 30*time.Second)
			if p.Now() > room+2 {
				t.Errorf("limit %d with room for %d", p.Now(), room)
			}
			if room == 0 && narrow.refused > MaxRequests+30/5+1 {
				t.Errorf("%d requests were sent, and all rejected", narrow.refused)
			}
			wide := &server{random: seeds.Rand(t, 1), admits: roomFor(1000), latency: 20 * time.Millisecond, retryAfter: 5}
			drive(t, p, wide, 20*time.Second)
			if p.Now() != MaxRequests || wide.done < MaxRequests*50*20*6/10 {
				t.Errorf("after room for %d: %d were done when the target was well again, limit %d", room, wide.done, p.Now())
			}
		}
	})
}

// TestLimiterWithAKindRefused checks that objects that a target rejects permanently do not delay
// the others.
func TestLimiterWithAKindRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := &server{random: seeds.Rand(t, 1), latency: 10 * time.Millisecond, retryAfter: 1, admits: func(int) bool { n++; return n%2 == 0 }}
		drive(t, newLimiter(MaxWorkers), s, time.Minute)
		if s.done < 60*100*7/10 {
			t.Errorf("%d were done, %d refused", s.done, s.refused)
		}
	})
}

// TestLimiterShare checks that an agent that starts late at a full target gets a share of it.
func TestLimiterShare(t *testing.T) {
	const length = 5 * time.Minute // long, since the larger share alternates
	synctest.Test(t, func(t *testing.T) {
		s := &server{random: seeds.Rand(t, 1), admits: roomFor(10), latency: 10 * time.Millisecond, retryAfter: 1}
		early, late := newLimiter(MaxWorkers), newLimiter(MaxWorkers)
		drive(t, early, s, 5*time.Second)
		var both sync.WaitGroup
		var done [2]int
		for i, p := range []*Limiter{early, late} {
			both.Go(func() { done[i] = drive(t, p, s, length) })
		}
		both.Wait()
		all := 10 * 100 * int(length/time.Second)
		t.Logf("%d and %d of %d were done", done[0], done[1], all)
		if few := min(done[0], done[1]); few < all/4 {
			t.Errorf("one of them got %d done", few)
		}
	})
}

// answers records the response to the only current request.
func answers(p *Limiter, took time.Duration, err error) {
	p.under++
	p.answered(took, err)
}

func TestLimiterKeepsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLimiter(MaxWorkers)
		sends := func(after time.Duration) {
			t.Helper()
			start := time.Now()
			if !p.Acquire(t.Context()) {
				t.Fatal("not let in")
			}
			if err := p.send(p.Begin(t.Context(), endless)); err != nil || time.Since(start) != after {
				t.Errorf("sent after %s: %v", time.Since(start), err)
			}
			p.under--
			p.Release()
		}
		for range initialLimit / 2 { // of so many under way the others are worked on
			p.under = initialLimit
			p.answered(time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		}
		p.under = 0
		if p.Now() != initialLimit/2 {
			t.Errorf("limit %d", p.Now())
		}
		sends(0)
		answers(p, time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		if p.Now() != 1 { // there was no other request
			t.Errorf("limit %d", p.Now())
		}
		sends(0)
		p.under = 3 // requests that were sent before
		p.answered(time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		p.under = 0
		sends(0)
		answers(p, time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		sends(7 * time.Second)
		answers(p, time.Millisecond, nil) // others are served
		answers(p, time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		sends(0)
		answers(p, time.Millisecond, refusedWith(http.StatusServiceUnavailable, 0)) // the gate probes
		sends(0)
		answers(p, time.Millisecond, refusedWith(http.StatusTooManyRequests, 0))
		sends(defaultRest)
		// The rejection of one object for its content does not lower the limit.
		q := newLimiter(MaxWorkers)
		answers(q, time.Millisecond, refusedWith(http.StatusUnprocessableEntity, 0))
		if q.Now() != initialLimit {
			t.Errorf("limit %d after a refusal", q.Now())
		}
	})
}

// TestLimiterSendsNothingStale checks that a worker's request from before a pause is not sent after it, but
// rejected, so that the worker decides again; that other requests are sent; and that the concurrent
// requests never exceed the maximum of the limit.
func TestLimiterSendsNothingStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLimiter(MaxWorkers)
		for range 10_000 {
			p.under = MaxWorkers
			p.answered(time.Millisecond, nil)
		}
		if p.Now() != MaxRequests {
			t.Errorf("limit %d", p.Now())
		}
		p.limit, p.under = 1, 0
		decided := p.Begin(t.Context(), endless)
		for range 2 {
			answers(p, time.Millisecond, refusedWith(http.StatusTooManyRequests, 600))
		}
		if err := p.send(t.Context()); err != nil {
			t.Errorf("a question is not sent: %v", err)
		}
		p.under--
		if err := p.send(decided); !Busy(err) || RetryAfter(err) < 10*time.Minute {
			t.Errorf("it is sent to a target that asked for ten minutes: %v", err)
		}
		if err := p.send(p.Begin(t.Context(), endless)); err != nil {
			t.Error(err)
		}
	})
}

// TestLimiterAtASlowTarget checks that the number of concurrent requests does not grow at a target
// that responds slowly.
func TestLimiterAtASlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newLimiter(MaxWorkers)
		answers(p, time.Millisecond, nil)
		for range 2000 {
			answers(p, 2*time.Second, nil)
			retry.Pause(t.Context(), 10*time.Millisecond)
		}
		if p.Now() > initialLimit {
			t.Errorf("limit %d", p.Now())
		}
	})
}

// TestLimiterOfAShortRun checks how much of the target's capacity is used for few objects. A rejected object
// waits for a second, so no request should be rejected near the end.
func TestLimiterOfAShortRun(t *testing.T) {
	const runs, room, latency = 20, 4, 4 * time.Millisecond
	for _, objects := range []int{1000, 1500, 2000, 5000} {
		well, refused, allowed := 0, 0, time.Duration(objects/room)*latency
		for range runs {
			synctest.Test(t, func(t *testing.T) {
				s := &server{random: seeds.Rand(t, 1), admits: roomFor(room), latency: latency, retryAfter: 1, overhead: latency / 4}
				if finish(t, newLimiter(MaxWorkers), s, objects) <= allowed*5/4 {
					well++
				}
				refused += s.refused
			})
		}
		t.Logf("%d objects: 0.8 of what is allowed in %d of %d runs, %d refusals in one", objects, well, runs, refused/runs)
		if well < runs*3/5 {
			t.Errorf("%d objects: 0.8 of what is allowed in %d of %d runs", objects, well, runs)
		}
	}
}

// finish works on a number of objects until all are finished, and returns the time for that. A
// rejected object waits for the time that the target asks for.
func finish(t *testing.T, p *Limiter, s *server, objects int) time.Duration {
	begun, due := time.Now(), make(chan struct{}, objects)
	for range objects {
		due <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	var done atomic.Int64
	work := func() {
		err, sent := s.work(p.Begin(ctx, len(due)), p)
		switch {
		case err != nil && !sent && ctx.Err() != nil:
		case err != nil:
			time.AfterFunc(restAfter(err), func() { due <- struct{}{} })
		case done.Add(1) == int64(objects):
			cancel()
		}
	}
	for range MaxWorkers {
		workers.Go(func() {
			for p.Acquire(ctx) {
				select {
				case <-due:
					work()
				case <-ctx.Done():
				}
				p.Release()
			}
		})
	}
	workers.Wait()
	return time.Since(begun)
}
