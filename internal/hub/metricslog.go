package hub

import (
	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/store"
)

// registerLog registers what is measured of the log's size.
func (h *Hub) registerLog(registry *prometheus.Registry) {
	gauge := func(name, help string, value func(store.Usage) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(h.log.Usage()) }))
	}
	counter := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	gauge("orrery_log_quota_bytes", "How large the log may become.", func(u store.Usage) float64 { return float64(u.Quota) })
	gauge("orrery_log_size_bytes", "Size of etcd's database.", func(u store.Usage) float64 { return float64(u.File) })
	gauge("orrery_log_in_use_bytes", "What of it is in use, history included.", func(u store.Usage) float64 { return float64(u.InUse) })
	gauge("orrery_log_history_bytes", "What was written since the oldest revision that is kept.", func(u store.Usage) float64 { return float64(u.History) })
	gauge("orrery_log_full", "1 while the log has no room for what would make it larger.", func(u store.Usage) float64 {
		if u.Full {
			return 1
		}
		return 0
	})
	counter("orrery_log_writes_refused_total", "Writes for which the log had no room.", func() float64 { return float64(h.log.Usage().Refused) })
	counter("orrery_log_defragmentations_total", "Times that the log was defragmented.", func() float64 { return float64(h.log.Usage().Defragmentations) })
	counter("orrery_log_defragmentation_seconds_total", "How long that took.", func() float64 { return h.log.Usage().Defragmenting.Seconds() })
	registry.MustRegister(
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_rate_refused_total", Help: "Requests of who wrote, or reported, more than the hub takes of one.",
			ConstLabels: prometheus.Labels{"of": "space"},
		}, func() float64 { return float64(h.spaceWrites.Refusals()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_rate_refused_total", Help: "Requests of who wrote, or reported, more than the hub takes of one.",
			ConstLabels: prometheus.Labels{"of": "location"},
		}, func() float64 { return float64(h.agents.Refusals()) }),
	)
}
