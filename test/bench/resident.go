package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
)

// resident is a simulated agent that outlives its sessions: it knows what its
// location has, and when a session ends it begins another where that one stopped. At
// the beginning of a session it says and asks what an agent does: its status, with
// the list of what its cluster serves if the hub has none, and, to a hub that began
// anew, whether that has its reports. It keeps sums where an agent keeps objects.
type resident struct {
	*simulated
	apis []wire.API
	home *residents

	mu   sync.Mutex
	conn net.Conn
	// away is closed when the location may connect again; nil: it may. forgets is true if it then has no
	// objects, as an agent whose data was lost.
	away    chan struct{}
	forgets bool
	// dropped is true if the connection was closed so that the location connects again at once.
	dropped atomic.Bool
	// rate is how many bytes a second it reads; 0: as they come, readsNothing: none. cut
	// counts its sessions that the hub ended.
	rate, cut atomic.Int64

	// What the location has, up to a revision of a log, and what was reported, are
	// for the goroutine of run. agreed is the marker of the hub that has the reports, had
	// what the location had before it forgot that.
	content, reported, lastReported map[string]wire.Sum
	root                            wire.Sum
	revision                        int64
	marker, agreed                  string
}

// residents are what all residents of a hub tell.
type residents struct {
	*fleet
	all []*resident
	// backs receives a location whenever its agent has the desired content
	// and all that begins a session is done.
	backs chan back
	// up and down count the bytes of connections, TLS included, puts the objects that
	// were sent, and cut the sessions that the hub ended.
	up, down  atomic.Int64
	sent, cut atomic.Int64
}

// back is the time at which a location was in sync again.
type back struct {
	location string
	syncedAt time.Time
}

// join makes locations, each with an agent that connects, and waits until all are in sync.
func (r *residents) join(n int, apis []wire.API) error {
	r.backs, r.all = make(chan back, 2*n), make([]*resident, n)
	if err := share(r.b.ctx, make([]struct{}, connecting), n, func(ctx context.Context, _ struct{}, i int) error {
		join, err := addLocation(ctx, r.b.root, simulatedName(i))
		if err != nil {
			return err
		}
		client, err := protocol.NewClient(join)
		if err != nil {
			return err
		}
		k := &resident{simulated: newSimulated(client, r.arrivals, r.answers), apis: apis, home: r, content: map[string]wire.Sum{}, reported: map[string]wire.Sum{}}
		k.HTTP.Transport.(*http.Transport).DialContext = k.dial
		r.all[i] = k
		r.running.Go(func() { k.run(r.ctx) })
		r.running.Go(func() { k.reportOn(r.ctx) })
		return nil
	}); err != nil {
		return err
	}
	_, err := r.allBack(n)
	return err
}

// allBack waits until n locations have been in sync anew, and returns when the last was.
func (r *residents) allBack(n int) (last time.Time, err error) {
	have := map[string]struct{}{}
	timeout := time.NewTimer(timeLimit)
	defer timeout.Stop()
	for len(have) < n {
		select {
		case b := <-r.backs:
			have[b.location], last = struct{}{}, b.syncedAt
		case <-timeout.C:
			return last, fmt.Errorf("%d of %d locations are back after %s", len(have), n, timeLimit)
		case <-r.ctx.Done():
			return last, context.Cause(r.ctx)
		}
	}
	return last, nil
}

// forgetBacks drops the earlier times.
func (r *residents) forgetBacks() {
	for len(r.backs) > 0 {
		<-r.backs
	}
}

// dial connects to the hub and counts the bytes.
func (k *resident) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	counted := &countedConn{Conn: conn, in: &k.home.down, out: &k.home.up, rate: &k.rate}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conn = counted
	return counted, nil
}

// drop closes the connection, for the agent to come back at once.
func (k *resident) drop() { k.leave(nil, false) }

// leave closes the connection. The agent comes back when back is closed; forgets: without
// anything of what it had.
func (k *resident) leave(back chan struct{}, forgets bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.away, k.forgets = back, forgets
	k.dropped.Store(true)
	_ = k.conn.Close() // the session ends by it
}

// errFar is returned for a message that no hub of the bench sends: an agent would wait for an administrator, or
// compare again.
var errFar = errors.New("the hub's log is another one, or does not lead to the state in its hello")

// errWalked is returned after a comparison that has given the location the recent content of the hub. A new
// session continues from there.
var errWalked = errors.New("compared: connect again")

// run holds one session after the other until ctx ends, and waits in between as an
// agent does.
func (k *resident) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		k.stayAway(ctx)
		synced, err := k.session(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errFar) {
			k.home.fail(fmt.Errorf("simulated agent %q: %w", k.Join.Location, err))
			return
		}
		if synced {
			failures = 0
		}
		if !errors.Is(err, errWalked) && !k.dropped.Swap(false) {
			wait(ctx, agentBackoff(failures))
		}
	}
}

// agentBackoff is how long agents wait before the next session after so many that
// failed in a row.
func agentBackoff(failures int) time.Duration {
	const first, most = 100 * time.Millisecond, time.Minute
	d := min(most, first<<min(failures, 20))
	return d - time.Duration(rand.Int64N(int64(d)/4+1))
}

// session runs one session. synced reports whether the location was in sync.
func (k *resident) session(ctx context.Context) (synced bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := k.Open(ctx, k.revision, k.marker)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for resumes := false; ; {
		f, err := stream.Next()
		if err != nil {
			return synced, err
		}
		switch now := time.Now(); {
		case f.Hello != nil:
			if err := k.greet(ctx, f.Hello); err != nil {
				return false, err
			}
			if !f.Hello.Resumed && f.Hello.Root != k.root {
				return false, k.walk(ctx)
			}
			if resumes = f.Hello.Resumed; !resumes {
				synced = true
				k.tell(ctx, f.Hello.Revision, f.Hello.Marker)
			}
		case f.Put != nil:
			k.put(ctx, f.Put, now)
		case f.Del != nil:
			k.del(ctx, f.Del)
		case f.Mark != nil:
			if f.Mark.Root != k.root {
				return synced, fmt.Errorf("%w: at the mark of revision %d", errFar, f.Mark.Revision)
			}
			k.revision, k.marker = f.Mark.Revision, f.Mark.Marker
			if resumes && !synced {
				synced = true
				k.tell(ctx, f.Mark.Revision, f.Mark.Marker)
			}
		case f.Hold != nil, f.Conflict != nil:
			return synced, fmt.Errorf("%w: nothing is placed that can be held back", errFar)
		case f.Bye != nil:
			k.home.cut.Add(1)
			k.cut.Add(1)
			return synced, fmt.Errorf("the hub ended the session: %s %s", f.Bye.Reason, f.Bye.Message)
		}
	}
}

// greet does what an agent does when the hub has said hello.
func (k *resident) greet(ctx context.Context, h *wire.Hello) error {
	if !h.Continuous {
		return fmt.Errorf("%w: at the hello of revision %d", errFar, h.Revision)
	}
	if err := k.sayStatus(ctx); err != nil {
		return err
	}
	if k.agreed == h.Marker {
		return nil
	}
	frames, err := k.Exchange(ctx, route.ReportsWalk, wire.Walk{}, protocol.Holding(k.reported).Index().Span("", ""))
	if err != nil {
		return fmt.Errorf("compare reports: %w", err)
	}
	if len(frames) != 2 { // a hello and a mark
		return fmt.Errorf("%w: the hub has other reports", errFar)
	}
	k.agreed = h.Marker
	return nil
}

// sayStatus sends the agent's status, and what its cluster serves if the hub asks for it.
func (k *resident) sayStatus(ctx context.Context) error {
	status := wire.AgentStatus{Version: "simulated", KubernetesVersion: "simulated", APIsDigest: "simulated", LogIdentity: wire.Proven}
	for {
		answer, err := k.Tell(ctx, status)
		if err != nil {
			return err
		}
		if !answer.SendAPIs || status.APIs != nil {
			return nil
		}
		status.APIs = k.apis
	}
}

// report reports that the location is in sync.
func (k *resident) tell(ctx context.Context, revision int64, marker string) {
	k.revision, k.marker = revision, marker
	select {
	case k.home.backs <- back{k.Join.Location, time.Now()}:
	case <-ctx.Done():
	}
}

func (k *resident) put(ctx context.Context, p *wire.Put, now time.Time) {
	leaf := wire.LeafSum(p.Key, p.UID, p.Digest, p.Policy)
	k.root = k.root.Sub(k.content[p.Key]).Add(leaf)
	k.content[p.Key] = leaf
	k.arrived(ctx, p, now)
}

// arrived handles an object that was sent, and reports it.
func (k *resident) arrived(ctx context.Context, p *wire.Put, now time.Time) {
	k.home.sent.Add(1)
	select {
	case k.arrivals <- arrival{k.Join.Location, p, now}:
	case <-ctx.Done():
	}
	line := appliedLine(p, now)
	k.reported[p.Key] = line.Report.Sum()
	k.queue(ctx, line)
}

func (k *resident) del(ctx context.Context, d *wire.Del) {
	k.root = k.root.Sub(k.content[d.Key])
	delete(k.content, d.Key)
	delete(k.reported, d.Key)
	k.queue(ctx, wire.ReportLine{Key: d.Key, Removed: true})
}

// reportOn sends reports as they come, again if it has to, until ctx ends.
func (k *resident) reportOn(ctx context.Context) {
	for {
		select {
		case line := <-k.reports:
			all := k.gather(line)
			for failures := 0; k.send(ctx, all) != nil && ctx.Err() == nil; failures++ {
				wait(ctx, agentBackoff(failures))
			}
		case <-ctx.Done():
			return
		}
	}
}
