package hub

import (
	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/store"
)

// registerLog registers the metrics of the log, and of writes and reports that are too
// many for it.
func (h *Hub) registerLog(registry *prometheus.Registry) {
	const rateRefused = "Requests refused because their space or location writes or reports too much."
	gauge := func(name, help string, value func(store.Usage) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(h.log.Usage()) }))
	}
	counter := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	gauge("orrery_log_quota_bytes", "How large the log may become.", func(u store.Usage) float64 { return float64(u.Quota) })
	gauge("orrery_log_size_bytes", "Size of etcd's database.", func(u store.Usage) float64 { return float64(u.File) })
	gauge("orrery_log_in_use_bytes", "Part of etcd's database that is in use, history included.", func(u store.Usage) float64 { return float64(u.InUse) })
	gauge("orrery_log_history_bytes", "Bytes written since the oldest revision that is kept.", func(u store.Usage) float64 { return float64(u.History) })
	gauge("orrery_log_full", "1 while the log has no room for writes that would make it larger, otherwise 0.", func(u store.Usage) float64 {
		if u.Full {
			return 1
		}
		return 0
	})
	counter("orrery_log_writes_refused_total", "Writes for which the log had no room.", func() float64 { return float64(h.log.Usage().Refused) })
	counter("orrery_log_defragmentations_total", "Times that the log was defragmented.", func() float64 { return float64(h.log.Usage().Defragmentations) })
	counter("orrery_log_defragmentation_seconds_total", "Time that defragmentations of the log took.", func() float64 { return h.log.Usage().Defragmenting.Seconds() })
	registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_rate_refused_total", Help: rateRefused,
			ConstLabels: prometheus.Labels{"of": "space"},
		}, func() float64 { return float64(h.spaceWrites.Refusals()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_rate_refused_total", Help: rateRefused,
			ConstLabels: prometheus.Labels{"of": "location"},
		}, func() float64 { return float64(h.agents.Refusals()) }),
	)
}
