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

// server is a target that decides at once whether it takes a request, and then takes its
// time. A request that it refuses is to be sent again after so many seconds.
type server struct {
	mu         sync.Mutex
	random     *rand.Rand           // guarded by mu
	admits     func(under int) bool // with so many under way
	takes      time.Duration
	retryAfter int32
	beside     time.Duration // what a worker takes besides its request
	// under are under way, most were at most; done and refused count answers.
	under, most, done, refused int
}

// roomFor admits as many at once, as max-requests-inflight does.
func roomFor(n int) func(int) bool { return func(under int) bool { return under <= n } }

// bucket admits so many in a second, and as many at once as it holds.
func bucket(rate, holds float64) func(int) bool {
	tokens, last := holds, time.Now()
	return func(int) bool {
		now := time.Now()
		tokens = min(holds, tokens+rate*now.Sub(last).Seconds())
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
		took = s.takes*3/4 + time.Duration(s.random.Int64N(int64(s.takes/2)))
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

// work is what a worker does for an object: a request, and what it reads before and writes after.
func (s *server) work(ctx context.Context, p *Pace) (err error, sent bool) {
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

// busy passes half of what a worker takes besides. Of none it does not wait: a timer that is over when it is waited for
// ends a process with the race detector in a bubble (Go 1.26, runtime.timer.maybeRunChan).
func (s *server) busy() {
	if s.beside > 0 {
		<-time.After(s.beside / 2)
	}
}

// endless is more objects than are ever done.
const endless = 1 << 20

// drive works on objects without end for a time, and returns how many were done.
func drive(t *testing.T, p *Pace, s *server, length time.Duration) int {
	var done atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var workers sync.WaitGroup
	for range MostWorkers {
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

// TestPaceFollowsTheTarget shows what share of what targets allow is used, and
// how many refusals that takes.
func TestPaceFollowsTheTarget(t *testing.T) {
	const length = time.Minute
	for name, c := range map[string]struct {
		admits     func() func(int) bool
		takes      time.Duration
		retryAfter int32
		allows     float64 // in a second
		share      float64 // of that, at least
		refused    float64 // for each that is done, at most
	}{
		"room for all":              {func() func(int) bool { return roomFor(1000) }, 50 * time.Millisecond, 1, MostPace * 20, 0.9, 0},
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
				s := &server{random: seeds.Rand(t, 1), admits: c.admits(), takes: c.takes, retryAfter: c.retryAfter}
				drive(t, newPace(MostWorkers), s, length)
				share, refused := float64(s.done)/c.allows/length.Seconds(), float64(s.refused)/float64(s.done)
				t.Logf("%.2f of what is allowed; %.3f refusals for each; at most %d at once", share, refused, s.most)
				if share < c.share || refused > c.refused {
					t.Error("want another share or fewer refusals")
				}
			})
		})
	}
}

// TestPaceFillsTheRoom shows that what workers do besides their requests leaves no room unused.
func TestPaceFillsTheRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room, takes, length = 4, 4 * time.Millisecond, time.Minute
		s := &server{random: seeds.Rand(t, 1), admits: roomFor(room), takes: takes, retryAfter: 1, beside: takes / 3}
		drive(t, newPace(MostWorkers), s, length)
		if share := float64(s.done) / (room * float64(length/takes)); share < 0.9 {
			t.Errorf("%.2f of what is allowed", share)
		}
	})
}

// TestPaceRecovers shows that the pace follows a target that takes less for some
// time, and one that refuses everything.
func TestPaceRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(MostWorkers)
		for _, room := range []int{12, 0, 2} {
			narrow := &server{random: seeds.Rand(t, 1), admits: roomFor(room), takes: 20 * time.Millisecond, retryAfter: 5}
			drive(t, p, narrow, 30*time.Second)
			if p.Now() > room+2 {
				t.Errorf("pace %d with room for %d", p.Now(), room)
			}
			if room == 0 && narrow.refused > MostPace+30/5+1 {
				t.Errorf("asked %d times, and always refused", narrow.refused)
			}
			wide := &server{random: seeds.Rand(t, 1), admits: roomFor(1000), takes: 20 * time.Millisecond, retryAfter: 5}
			drive(t, p, wide, 20*time.Second)
			if p.Now() != MostPace || wide.done < MostPace*50*20*6/10 {
				t.Errorf("after room for %d: %d were done when the target was well again, pace %d", room, wide.done, p.Now())
			}
		}
	})
}

// TestPaceWithAKindRefused shows that objects that a target refuses for good do not slow
// down the others.
func TestPaceWithAKindRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		s := &server{random: seeds.Rand(t, 1), takes: 10 * time.Millisecond, retryAfter: 1, admits: func(int) bool { n++; return n%2 == 0 }}
		drive(t, newPace(MostWorkers), s, time.Minute)
		if s.done < 60*100*7/10 {
			t.Errorf("%d were done, %d refused", s.done, s.refused)
		}
	})
}

// TestPacesShare shows that an agent that comes late to a full target gets a share of it.
func TestPacesShare(t *testing.T) {
	const length = 5 * time.Minute // who has more changes with time
	synctest.Test(t, func(t *testing.T) {
		s := &server{random: seeds.Rand(t, 1), admits: roomFor(10), takes: 10 * time.Millisecond, retryAfter: 1}
		early, late := newPace(MostWorkers), newPace(MostWorkers)
		drive(t, early, s, 5*time.Second)
		var both sync.WaitGroup
		var done [2]int
		for i, p := range []*Pace{early, late} {
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

// answers is an answer to a request that was sent alone.
func answers(p *Pace, took time.Duration, err error) {
	p.under++
	p.answered(took, err)
}

func TestPaceKeepsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(MostWorkers)
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
		for range startPace / 2 { // of so many under way the others are worked on
			p.under = startPace
			p.answered(time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		}
		p.under = 0
		if p.Now() != startPace/2 {
			t.Errorf("pace %d", p.Now())
		}
		sends(0)
		answers(p, time.Millisecond, refusedWith(http.StatusServiceUnavailable, 7))
		if p.Now() != 1 { // nothing else was under way
			t.Errorf("pace %d", p.Now())
		}
		sends(0)
		p.under = 3 // who had been sent before
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
		sends(unsaidRest)
		// A refusal of one object says nothing of the target.
		q := newPace(MostWorkers)
		answers(q, time.Millisecond, refusedWith(http.StatusUnprocessableEntity, 0))
		if q.Now() != startPace {
			t.Errorf("pace %d after a refusal", q.Now())
		}
	})
}

// TestPaceSendsNothingStale: what was decided before a target asked to be left alone is not sent after
// that, but refused, so that it is decided anew; what nobody has decided but somebody asks is sent; and
// no more is under way than the pace can become.
func TestPaceSendsNothingStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(MostWorkers)
		for range 10_000 {
			p.under = MostWorkers
			p.answered(time.Millisecond, nil)
		}
		if p.Now() != MostPace {
			t.Errorf("pace %d", p.Now())
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

// TestPaceAtASlowTarget shows that a target that answers slowly is not sent more requests
// at once.
func TestPaceAtASlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPace(MostWorkers)
		answers(p, time.Millisecond, nil)
		for range 2000 {
			answers(p, 2*time.Second, nil)
			retry.Pause(t.Context(), 10*time.Millisecond)
		}
		if p.Now() > startPace {
			t.Errorf("pace %d", p.Now())
		}
	})
}

// TestPaceOfAShortRun shows what of the room is used for so few objects that they take seconds: who is
// refused waits for one more, so nobody is to be refused near the end.
func TestPaceOfAShortRun(t *testing.T) {
	const runs, room, takes = 20, 4, 4 * time.Millisecond
	for _, objects := range []int{1000, 1500, 2000, 5000} {
		well, refused, allowed := 0, 0, time.Duration(objects/room)*takes
		for range runs {
			synctest.Test(t, func(t *testing.T) {
				s := &server{random: seeds.Rand(t, 1), admits: roomFor(room), takes: takes, retryAfter: 1, beside: takes / 4}
				if finish(t, newPace(MostWorkers), s, objects) <= allowed*5/4 {
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

// finish works on so many objects until all are done, of which those wait that are refused, and
// returns how long that took.
func finish(t *testing.T, p *Pace, s *server, objects int) time.Duration {
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
	for range MostWorkers {
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
