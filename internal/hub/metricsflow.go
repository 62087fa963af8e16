package hub

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/controllers"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// flow measures the requests, the queues of controllers, and the frames that agents are sent. It is safe for
// concurrent use.
type flow struct {
	applied  *applied
	requests *requests
	// waited is how long requests wait for the table, delivered how long changes take to be sent.
	waited, delivered prometheus.Histogram
	sent              prometheus.Counter
	ended             *prometheus.CounterVec
	queued            *prometheus.GaugeVec
	failed            *prometheus.CounterVec
}

var (
	_ agentapi.Watch    = (*flow)(nil)
	_ controllers.Meter = (*flow)(nil)
)

func newFlow() *flow {
	return &flow{
		applied: newApplied(), requests: newRequests(),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "orrery_table_wait_seconds", Help: "How long requests waited until the table showed what was acknowledged before them.",
			Buckets: []float64{.001, .005, .02, .1, .5, 2, 10},
		}),
		delivered: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "orrery_agent_delivery_seconds", Help: "How long changes took from the table to the connection of an agent, the oldest of those that went together.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10, 60},
		}),
		sent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "orrery_agent_sent_bytes_total", Help: "Bytes of frames that agents were sent.",
		}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_agent_sessions_ended_total", Help: "Sessions of agents that have ended, by the reason that the agent was given; Gone: it had left.",
		}, []string{"reason"}),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "orrery_controller_queue_length", Help: "Items that wait for a controller of the hub.",
		}, []string{"controller"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_controller_failures_total", Help: "Times that a controller of the hub failed and will try again.",
		}, []string{"controller"}),
	}
}

func (f *flow) register(registry *prometheus.Registry) {
	registry.MustRegister(f.waited, f.delivered, f.sent, f.ended, f.queued, f.failed)
	f.requests.register(registry)
}

// Delivered implements agentapi.Watch.
func (f *flow) Delivered(oldest int64) {
	if applied, ok := f.applied.timeOf(oldest); ok {
		f.delivered.Observe(time.Since(applied).Seconds())
	}
}

// Sent implements agentapi.Watch.
func (f *flow) Sent(bytes int) { f.sent.Add(float64(bytes)) }

// Ended implements agentapi.Watch.
func (f *flow) Ended(reason string) { f.ended.WithLabelValues(cmp.Or(reason, "Gone")).Inc() }

// Queued implements controllers.Meter.
func (f *flow) Queued(controller string, length int) {
	f.queued.WithLabelValues(controller).Set(float64(length))
}

// Failed implements controllers.Meter.
func (f *flow) Failed(controller string) { f.failed.WithLabelValues(controller).Inc() }

// appliedMost is the number of recent revisions of which the time of application is known. Older revisions are
// read only by clients that resume.
const appliedMost = 4096

// applied knows when the table was shown the last revisions. It is safe for concurrent use.
type applied struct {
	mu   sync.Mutex
	ring []revisionAt
	next int
}

type revisionAt struct {
	rev  int64
	time time.Time
}

func newApplied() *applied { return &applied{} }

// Reset implements table.Observer.
func (a *applied) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ring, a.next = nil, 0
}

// Observe implements table.Observer.
func (a *applied) Observe(rev int64, _ []table.Change) {
	now := revisionAt{rev, time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ring) < appliedMost {
		a.ring = append(a.ring, now)
		return
	}
	a.ring[a.next] = now
	a.next = (a.next + 1) % appliedMost
}

// timeOf returns when a revision was applied; false if that was too long ago, or before this hub started.
func (a *applied) timeOf(rev int64) (time.Time, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	compare := func(r revisionAt, rev int64) int { return cmp.Compare(r.rev, rev) }
	for _, segment := range [][]revisionAt{a.ring[a.next:], a.ring[:a.next]} {
		if i, ok := slices.BinarySearchFunc(segment, rev, compare); ok {
			return segment[i].time, true
		}
	}
	return time.Time{}, false
}
