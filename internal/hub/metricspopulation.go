package hub

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/progress"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// silences are the durations for which the number of silent locations is reported.
var silences = map[string]time.Duration{"5m": 5 * time.Minute, "1h": time.Hour, "24h": 24 * time.Hour}

// population counts what there is when it is asked. Its cost grows with the number of
// spaces and locations, its series do not.
type population struct {
	table    *table.Table
	present  *presence.Index
	progress *progress.Tracker
	// since is when the hub started. It has received no request before.
	since time.Time
	// What is counted.
	spaces, locations, silent, placed *prometheus.Desc
}

// newPopulation counts what there is in a table.
func newPopulation(rows *table.Table, present *presence.Index, counted *progress.Tracker) *population {
	return &population{
		table: rows, present: present, progress: counted, since: time.Now(),
		spaces:    prometheus.NewDesc("orrery_spaces", "Spaces.", nil, nil),
		locations: prometheus.NewDesc("orrery_locations", "Locations.", nil, nil),
		silent: prometheus.NewDesc("orrery_locations_silent",
			"Locations without a session and without a request for longer, or since the hub started.", []string{"longer_than"}, nil),
		placed: prometheus.NewDesc("orrery_placed_objects",
			"Objects at locations, each counted at each of its locations, by state; assigned are all, stale those of locations that can't be seen now.", []string{"state"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *population) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{p.spaces, p.locations, p.silent, p.placed} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (p *population) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	state, now := p.table.Snapshot(), time.Now()
	spaces, locations, silent := 0, 0, map[string]int{}
	var sum v1alpha1.Counts
	state.Ascend(key.ResourcePrefix(key.Root, key.Spaces), func(*table.Row) bool { spaces++; return true })
	prefix := key.ResourcePrefix(key.Root, key.Locations)
	state.Ascend(prefix, func(row *table.Row) bool {
		locations++
		l := key.Location(strings.TrimPrefix(row.Key, prefix))
		counts := p.progress.Location(l)
		open := presence.AllOpen(state, l, row)
		var gone time.Time
		for _, agent := range presence.AgentsOf(l, row) {
			if since := p.present.Gone(agent); since.After(gone) {
				gone = since
			}
		}
		if !open || objectstate.IsRowStale(row) {
			counts.Stale = counts.Assigned
		}
		sum.Add(counts)
		quiet := now.Sub(p.since)
		if !gone.IsZero() {
			quiet = now.Sub(gone)
		}
		for name, least := range silences {
			if !open && quiet > least {
				silent[name]++
			}
		}
		return true
	})
	gauge(p.spaces, float64(spaces))
	gauge(p.locations, float64(locations))
	for name := range silences {
		gauge(p.silent, float64(silent[name]), name)
	}
	for name, n := range map[string]int64{
		"assigned": sum.Assigned, "applied": sum.Applied, "healthy": sum.Healthy, "mutated": sum.Mutated,
		"failed": sum.Failed, "held": sum.Held, "stale": sum.Stale,
	} {
		gauge(p.placed, float64(n), name)
	}
}
