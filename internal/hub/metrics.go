package hub

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orrery.dev/orrery/internal/fair"
)

// newMetrics serves the hub's metrics. Their labels have no values that users choose, so
// the number of series is bounded.
func (h *Hub) newMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_log_revision", Help: "Revision that the table has reached.",
		}, func() float64 { return float64(h.table.Rev()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_agent_sessions", Help: "Locations with an agent connected.",
		}, func() float64 { return float64(h.sessions.Count()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_enrolments_reused_total", Help: "Enrolments revoked since an agent's spent credential was shown again.",
		}, func() float64 { return float64(h.enrolments.Reused()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_view_decode_fallbacks_total", Help: "JSON answers that had to decode objects instead of sending their bytes.",
		}, func() float64 { return float64(h.views.Fallbacks()) }),
	)
	h.registerLog(registry)
	h.registerKeys(registry)
	h.registerIssuers(registry)
	calls, reports := h.agents.Queues()
	for class, t := range map[string]*fair.Queue{"read": h.reads.Queue, "write": h.writes.Queue, "agent": calls, "report": reports, "large": h.bodies.Queue} {
		labels := prometheus.Labels{"class": class}
		registry.MustRegister(
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "orrery_requests_working", Help: "Requests being worked on.", ConstLabels: labels,
			}, func() float64 { working, _, _ := t.Load(); return float64(working) }),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{
				Name: "orrery_requests_waiting", Help: "Requests that wait for their turn.", ConstLabels: labels,
			}, func() float64 { _, waiting, _ := t.Load(); return float64(waiting) }),
			prometheus.NewCounterFunc(prometheus.CounterOpts{
				Name: "orrery_requests_refused_total", Help: "Requests refused because they waited too long for their turn, or too many were waiting.", ConstLabels: labels,
			}, func() float64 { _, _, refused := t.Load(); return float64(refused) }),
		)
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
