package hub_test

import (
	"io"
	"net/http"
	goruntime "runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/protocol"
)

// heapPeak runs something and returns by how much the heap grew at most meanwhile.
func heapPeak(do func()) uint64 {
	// What is no longer used is not to count.
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	var before, now goruntime.MemStats
	goruntime.GC()
	goruntime.ReadMemStats(&before)
	peak := before.HeapAlloc
	done, sampled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sampled)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				goruntime.ReadMemStats(&now)
				peak = max(peak, now.HeapAlloc)
			case <-done:
				return
			}
		}
	}()
	do()
	close(done)
	<-sampled
	return peak - before.HeapAlloc
}

// slowBody is a body of reports that is sent in full and held open for a while, so that
// all bodies are there at once.
type slowBody struct {
	line   []byte
	left   int
	hold   <-chan struct{}
	moved  *atomic.Int64 // counts the sent bytes
	buffer []byte
}

// Read returns the remaining bytes.
func (s *slowBody) Read(p []byte) (int, error) {
	if len(s.buffer) == 0 {
		s.moved.Add(1)
		if s.left < len(s.line) {
			<-s.hold
			return 0, io.EOF
		}
		s.left -= len(s.line)
		s.buffer = s.line
	}
	n := copy(p, s.buffer)
	s.buffer = s.buffer[n:]
	return n, nil
}

// waitStalled waits until a count has begun to grow, and then has not grown for a while.
func waitStalled(count *atomic.Int64) {
	const still = 2 * time.Second
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last, since := int64(0), time.Now(); last == 0 || time.Since(since) < still; <-tick.C {
		if now := count.Load(); now != last {
			last, since = now, time.Now()
		}
	}
}

// TestManyLargeBodies shows that the memory that many concurrent bodies of 7 MiB of one
// token take is bounded.
func TestManyLargeBodies(t *testing.T) {
	r := start(t, t.TempDir())
	r.addSpace("s")
	r.addLocation("a", map[string]string{"where": "here"})
	r.addPlacement("s", "p", "here", "all", nil)
	r.addConfigMap("placed", map[string]string{"what": "all"}, "v")
	a := r.join("a")
	line := []byte(reportsOf([]string{"s/core/configmaps/default/placed"}, `"`+filler(0, 400<<10)+`"`))
	const clients = 72 // of whose bodies 504 MiB come at once
	for _, call := range []string{"reports", "walk", "fetch", "status"} {
		var refused atomic.Int64
		peak := heapPeak(func() {
			// All requests are accepted or refused at once, and the sent bytes are read.
			hold, held := make(chan struct{}), make(chan struct{})
			var moved atomic.Int64
			go func() {
				defer close(held)
				defer close(hold)
				waitStalled(&moved)
			}()
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					defer moved.Add(1)
					// A connection of its own: those that are shared bound by themselves.
					alone := &http.Client{Transport: &http.Transport{TLSClientConfig: a.HTTP.Transport.(*http.Transport).TLSClientConfig.Clone()}}
					defer alone.CloseIdleConnections()
					own := testAgent{Client: &protocol.Client{Join: a.Join, HTTP: alone}, r: r, location: a.location}
					resp, err := own.postFrom(t.Context(), call, &slowBody{line: line, left: 7 << 20, hold: hold, moved: &moved})
					if err != nil { // refused while it was sent
						refused.Add(1)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode == http.StatusTooManyRequests {
						refused.Add(1)
					}
				})
			}
			group.Wait()
			<-held
		})
		t.Logf("%s: %d MiB at most, %d refused", call, peak>>20, refused.Load())
		if peak > 300<<20 {
			t.Errorf("%s: %d bodies of 7 MiB take %d MiB", call, clients, peak>>20)
		}
	}
}
