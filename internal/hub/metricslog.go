package hub

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/hub/auth/oidc"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// registerTable registers how far the table follows the log.
func registerTable(registry *prometheus.Registry, rows *table.Table, log *etcd.Log) {
	gauge := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("orrery_log_revision", "Revision that the table has reached.", func() float64 { return float64(rows.Rev()) })
	gauge("orrery_log_lag_revisions", "Revisions that the log is known to have and the table has not reached.", func() float64 {
		reached := rows.Rev() // before the other, so that there is never more than that
		return float64(max(0, log.Continuity().Known()-reached))
	})
	gauge("orrery_log_oldest_revision", "About the oldest revision of the log that was not compacted.", func() float64 { return float64(log.Capacity().Oldest()) })
	gauge("orrery_table_oldest_revision", "Oldest revision from which everything can be resumed.", func() float64 { return float64(rows.Oldest()) })
	gauge("orrery_table_rows", "Keys of the log that the table has: objects, reports, credentials.", func() float64 { return float64(rows.Size()) })
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "orrery_table_lost_total", Help: "Times that the table ceased to follow the log and had to be loaded again.",
	}, func() float64 { return float64(log.Continuity().Losses()) }))
}

// registerLog registers the metrics of the log.
func registerLog(registry *prometheus.Registry, log *etcd.Log) {
	gauge := func(name, help string, value func(etcd.Usage) float64) {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(log.Capacity().Usage()) }))
	}
	counter := func(name, help string, value func() float64) {
		registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
	}
	gauge("orrery_log_quota_bytes", "How large the log may become.", func(u etcd.Usage) float64 { return float64(u.Quota) })
	gauge("orrery_log_size_bytes", "Size of etcd's database.", func(u etcd.Usage) float64 { return float64(u.File) })
	gauge("orrery_log_in_use_bytes", "Part of etcd's database that is in use, history included.", func(u etcd.Usage) float64 { return float64(u.InUse) })
	gauge("orrery_log_history_bytes", "Bytes written since the oldest revision that is kept.", func(u etcd.Usage) float64 { return float64(u.History) })
	gauge("orrery_log_full", "1 while the log has no room for writes that would make it larger, otherwise 0.", func(u etcd.Usage) float64 {
		if u.Full {
			return 1
		}
		return 0
	})
	counter("orrery_log_written_bytes_total", "Bytes that were written to the log since the hub was started.", func() float64 { return float64(log.Capacity().Written()) })
	counter("orrery_log_writes_refused_total", "Writes for which the log had no room.", func() float64 { return float64(log.Capacity().Usage().Refused) })
	counter("orrery_log_defragmentations_total", "Times that the log was defragmented.", func() float64 { return float64(log.Capacity().Usage().Defragmentations) })
	counter("orrery_log_defragmentation_seconds_total", "Time that defragmentations of the log took.", func() float64 { return log.Capacity().Usage().Defragmenting.Seconds() })
}

// registerKeys registers what is measured of how values are kept.
func registerKeys(registry *prometheus.Registry, log *etcd.Log, keys *keys) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_log_reseal_pending", Help: "Values of the log that are yet to be encrypted again by the first key.",
		}, func() float64 { return float64(log.Reencryption().Progress().Pending) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_log_resealed_total", Help: "Values of the log that were encrypted again by the first key.",
		}, func() float64 { return float64(log.Reencryption().Progress().Written) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_log_reseal_failures_total", Help: "Times that encrypting values again failed and was retried.",
		}, func() float64 { return float64(log.Reencryption().Progress().Failures) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_encryption_config_changes_total", Help: "Times that a changed encryption configuration was taken over.",
		}, func() float64 { return float64(keys.Adopted()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_encryption_config_refused", Help: "1 while the encryption configuration has changed and can't be used.",
		}, func() float64 {
			if err := keys.Refused(); err != nil && !errors.Is(err, context.Canceled) {
				return 1
			}
			return 0
		}),
	)
}

// registerIssuers registers what is measured of the file of issuers, if there is one.
func registerIssuers(registry *prometheus.Registry, issuers *oidc.Issuers) {
	if issuers == nil {
		return
	}
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_authentication_config_refused", Help: "1 while the authentication configuration has changed and can't be used.",
		}, func() float64 {
			if refused, _ := issuers.Refused(); refused {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_authentication_config_failures_total", Help: "Times that the authentication configuration had changed and could not be used.",
		}, func() float64 { _, failures := issuers.Refused(); return float64(failures) }),
	)
}

// registerAudit registers what is measured of the audit log, if there is one.
func registerAudit(registry *prometheus.Registry, log *audit.Log) {
	if log == nil {
		return
	}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "orrery_audit_events_lost_total", Help: "Events that could not be written to the audit log.",
	}, func() float64 { return float64(log.Lost()) }))
}
