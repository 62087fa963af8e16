package agent

import (
	"context"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of one agent. They are registered only if Config.Metrics is set.
type metrics struct {
	requests  *prometheus.CounterVec
	repairs   prometheus.Counter
	contested prometheus.Counter
	frames    prometheus.Counter
	reports   prometheus.Counter
	sessions  prometheus.Counter
	rewinds   prometheus.Counter
	// work measures the time of an object from its enqueueing to the end of its reconciliation.
	work prometheus.Histogram
	// registered are the registered collectors.
	registered []prometheus.Collector
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "orrery_agent_target_requests_total",
			Help: "Requests to the target by verb and status code; code 0: no answer.",
		}, []string{"verb", "code"}),
		repairs: counter("orrery_agent_drift_repairs_total", "Objects applied again because they had been changed or deleted at the target."),
		contested: counter("orrery_agent_contested_repairs_total",
			"Repairs of objects that another writer at the location keeps changing."),
		frames:  counter("orrery_agent_frames_total", "Frames taken from the hub."),
		reports: counter("orrery_agent_reports_total", "Reports that the hub has acknowledged."),
		rewinds: counter("orrery_agent_cluster_rewinds_total",
			"Lists of a kind whose revision was below what was seen before, since the cluster was restored or rebuilt."),
		sessions: counter("orrery_agent_sessions_total", "Sessions opened with the hub."),
		work: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "orrery_agent_work_seconds",
			Help:    "How long it took from when an object had something to do until that was tried, the wait for its turn included.",
			Buckets: []float64{.02, .1, .5, 2, 10, 60, 300},
		}),
	}
}

func (m *metrics) request(verb string, code int) {
	m.requests.WithLabelValues(verb, strconv.Itoa(code)).Inc()
}

// rewound returns a function that counts a list whose revision decreased, and then calls search.
func (m *metrics) rewound(search func(context.Context)) func(context.Context) {
	return func(ctx context.Context) {
		m.rewinds.Inc()
		search(ctx)
	}
}

// register registers the counters, the version, and gauges of the fields that status returns.
func (m *metrics) register(r prometheus.Registerer, version string, status func() Status) error {
	gauge := func(name, help string, value func(Status) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(status()) })
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.repairs, m.contested, m.frames, m.reports, m.sessions, m.rewinds, m.work, newStates(status),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_agent_build_info", Help: "Always 1; the labels have the agent's version, and that of Go.",
			ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
		}, func() float64 { return 1 }),
		gauge("orrery_agent_connected", "1 while a session with the hub is open.", func(s Status) float64 {
			if s.Connected {
				return 1
			}
			return 0
		}),
		gauge("orrery_agent_credential_expiry_timestamp_seconds", "When the agent's credential ends, by the hub's clock; 0: it has none that does.", func(s Status) float64 {
			if s.CredentialEnds.IsZero() {
				return 0
			}
			return float64(s.CredentialEnds.Unix())
		}),
		gauge("orrery_agent_revision", "Revision of the last mark.", func(s Status) float64 { return float64(s.Revision) }),
		gauge("orrery_agent_desired_objects", "Objects that are desired at the location.", func(s Status) float64 { return float64(s.Desired) }),
		gauge("orrery_agent_queue_length", "Objects that wait for a worker.", func(s Status) float64 { return float64(s.Queued) }),
		gauge("orrery_agent_deferred", "Changes that wait for proof that the hub's log continues the previous one.", func(s Status) float64 { return float64(s.Deferred) }),
		gauge("orrery_agent_unsent_reports", "Reports that the hub does not have yet.", func(s Status) float64 { return float64(s.Unsent) }),
		gauge("orrery_agent_guarded", "Removals that wait for a confirmation.", func(s Status) float64 { return float64(s.Guarded) }),
		gauge("orrery_agent_pace", "Limit of concurrent requests for objects.", func(s Status) float64 { return float64(s.RequestLimit) }),
		gauge("orrery_agent_store_failing", "1 while the store cannot be written.", func(s Status) float64 {
			if s.StoreError != "" {
				return 1
			}
			return 0
		}),
		gauge("orrery_agent_cluster_replaced_timestamp_seconds", "When the agent last found another cluster in the place of the former one; 0: it has not.",
			func(s Status) float64 {
				if s.ClusterReplaced.IsZero() {
					return 0
				}
				return float64(s.ClusterReplaced.Unix())
			}),
		gauge("orrery_agent_cluster_unproven", "1 while the agent may not read which cluster it works at.", func(s Status) float64 {
			if s.ClusterUnproven {
				return 1
			}
			return 0
		}),
		gauge("orrery_agent_halted", "1 while nothing is changed at the target.", func(s Status) float64 {
			if s.Halt != "" {
				return 1
			}
			return 0
		}),
	} {
		if err := r.Register(c); err != nil {
			return err
		}
		m.registered = append(m.registered, c)
	}
	return nil
}

// unregister reverts register, so that another agent can register its metrics.
func (m *metrics) unregister(r prometheus.Registerer) {
	for _, c := range m.registered {
		r.Unregister(c)
	}
}

// states counts objects by the state that was last reported for them.
type states struct {
	status func() Status
	desc   *prometheus.Desc
}

func newStates(status func() Status) states {
	return states{status, prometheus.NewDesc("orrery_agent_objects",
		"Objects by the state last reported; objects without a report are not counted.", []string{"state"}, nil)}
}

// Describe implements prometheus.Collector.
func (s states) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect implements prometheus.Collector.
func (s states) Collect(to chan<- prometheus.Metric) {
	for state, n := range s.status().States {
		if state != "" {
			to <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), string(state))
		}
	}
}
