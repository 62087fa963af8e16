package mapper

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are one agent's. They are registered only if Config.Metrics is set.
type metrics struct {
	requests  *prometheus.CounterVec
	repairs   prometheus.Counter
	contested prometheus.Counter
	frames    prometheus.Counter
	reports   prometheus.Counter
	sessions  prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "orrery_agent", Name: name, Help: help})
	}
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "orrery_agent", Name: "target_requests_total",
			Help: "Requests to the target by verb and status code; code 0: no answer.",
		}, []string{"verb", "code"}),
		repairs: counter("drift_repairs_total", "Objects applied again because they had been changed or deleted at the target."),
		contested: counter("contested_repairs_total",
			"Repairs of objects that another writer at the location keeps changing."),
		frames:   counter("frames_total", "Frames taken from the hub."),
		reports:  counter("reports_total", "Reports that the hub has acknowledged."),
		sessions: counter("sessions_total", "Sessions opened with the hub."),
	}
}

func (m *metrics) request(verb string, code int) {
	m.requests.WithLabelValues(verb, strconv.Itoa(code)).Inc()
}

// register registers the counters, and gauges of what status returns.
func (m *metrics) register(r prometheus.Registerer, status func() Status) error {
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "orrery_agent", Name: name, Help: help},
			func() float64 { return value(status()) })
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.repairs, m.contested, m.frames, m.reports, m.sessions,
		gauge("connected", "1 while a session with the hub is open.", func(s Status) float64 {
			if s.Connected {
				return 1
			}
			return 0
		}),
		gauge("revision", "Revision of the last mark.", func(s Status) float64 { return float64(s.Revision) }),
		gauge("desired_objects", "Objects that are desired at the location.", func(s Status) float64 { return float64(s.Desired) }),
		gauge("queue_length", "Objects that wait for a worker.", func(s Status) float64 { return float64(s.Queued) }),
		gauge("deferred", "Changes that wait for proof of lineage.", func(s Status) float64 { return float64(s.Deferred) }),
		gauge("unsent_reports", "Reports that the hub does not have yet.", func(s Status) float64 { return float64(s.Unsent) }),
		gauge("guarded", "Removals that wait for a confirmation.", func(s Status) float64 { return float64(s.Guarded) }),
		gauge("pace", "Objects that may be worked on at once.", func(s Status) float64 { return float64(s.Pace) }),
		gauge("store_failing", "1 while the store cannot be written.", func(s Status) float64 {
			if s.StoreError != "" {
				return 1
			}
			return 0
		}),
		gauge("halted", "1 while nothing is changed at the target.", func(s Status) float64 {
			if s.Halt != "" {
				return 1
			}
			return 0
		}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
	}
	return nil
}
