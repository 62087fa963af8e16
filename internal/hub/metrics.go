package hub

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/oidc"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/kubeapi/read"
	"orrery.dev/orrery/internal/hub/readiness"
	"orrery.dev/orrery/internal/hub/storage/election"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/lib/fairqueue"
	"orrery.dev/orrery/internal/lib/process"
)

// measured is what is measured of a hub.
type measured struct {
	table      *table.Table
	log        *etcd.Log
	keys       *keys
	sessions   *agentapi.Sessions
	present    *presence.Index
	elections  *election.Elections
	agents     *agentapi.Server
	enrolments *auth.Enrolments
	issuers    *oidc.Issuers
	audit      *audit.Log
	views      *read.Server
	// spaceWrites limits the rate of writes to spaces; queues limit the requests of each class.
	spaceWrites *fairqueue.Rates
	queues      map[string]*fairqueue.Queue
	gate        *readiness.Gate
	progress    *progress.Tracker
	flow        *flow
}

// handler serves the metrics. Their labels have no values that users choose, so the number
// of series is bounded.
func (m *measured) handler() http.Handler {
	// The runtime's are gathered by themselves: to gather takes goroutines, by chance more or
	// fewer, which are not to count.
	ofRuntime := prometheus.NewRegistry()
	ofRuntime.MustRegister(collectors.NewGoCollector())
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_build_info", Help: "Always 1; the labels have the hub's version, and that of Go.",
			ConstLabels: prometheus.Labels{"version": process.Version(), "goversion": runtime.Version()},
		}, func() float64 { return 1 }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_ready", Help: "1 while requests are served and the log answers, otherwise 0.",
		}, func() float64 {
			if m.gate.Ready() {
				return 1
			}
			return 0
		}),
		newPopulation(m.table, m.present, m.progress),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_agent_sessions", Help: "Locations with an agent connected to this hub.",
		}, func() float64 { return float64(m.sessions.Count()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_hubs", Help: "Hubs that share the log and live, this one included.",
		}, func() float64 { return float64(len(presence.Hubs(m.table.Snapshot()))) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_elected_concerns", Help: "What only one hub does at a time and this one is elected to.",
		}, func() float64 { return float64(m.elections.Count()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_enrolments_reused_total", Help: "Enrolments revoked since an agent's spent credential was shown again.",
		}, func() float64 { return float64(m.enrolments.Reused()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_view_decode_fallbacks_total", Help: "JSON answers that had to decode objects instead of sending their bytes.",
		}, func() float64 { return float64(m.views.Fallbacks()) }),
	)
	registerTable(registry, m.table, m.log)
	m.flow.register(registry)
	registerLog(registry, m.log)
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "orrery_report_requests_waiting", Help: "Requests with reports that wait for their transaction.",
	}, func() float64 { return float64(m.agents.Waiting()) }))
	registerKeys(registry, m.log, m.keys)
	registerIssuers(registry, m.issuers)
	registerAudit(registry, m.audit)
	const rateRefused = "Requests refused because their space or location writes or reports too much."
	for class, refusals := range map[string]func() int{"space": m.spaceWrites.Refusals, "location": m.agents.Refusals} {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_rate_refused_total", Help: rateRefused, ConstLabels: prometheus.Labels{"of": class},
		}, func() float64 { return float64(refusals()) }))
	}
	for class, t := range m.queues {
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
	return promhttp.HandlerFor(prometheus.Gatherers{ofRuntime, registry}, promhttp.HandlerOpts{})
}
