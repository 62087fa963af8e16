package hub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/seal"
)

// keysFile is the file of the keys of the log.
func keysFile(config Config) string {
	if config.EncryptionConfig != "" {
		return config.EncryptionConfig
	}
	return filepath.Join(config.DataDir, seal.FileName)
}

// openSealer reads the keys of the log, and makes one for a data directory without. Hubs
// that share an external etcd need the same file, so one that is made there is pointed out.
func openSealer(config Config) (*seal.Sealer, error) {
	file := keysFile(config)
	if config.EncryptionConfig == "" {
		made, err := seal.Create(file)
		if err != nil {
			return nil, err
		}
		if made && len(config.EtcdServers) > 0 {
			config.Logger.Warn("made a key for Secrets in the log: all hubs that share the etcd need this file", "file", file)
		}
	}
	return seal.Open(file, config.Logger)
}

// closeLog ends the use of the log, of the issuers and of the audit log.
func (h *Hub) closeLog() error {
	defer h.issuers.Close()
	defer h.sealer.Close()
	return errors.Join(h.log.Close(), h.audit.Close())
}

// needKeys fails with what the tail of the log says of a value that can't be read.
func (h *Hub) needKeys(ctx context.Context, unreadable <-chan error) error {
	select {
	case err := <-unreadable:
		return fmt.Errorf("load the log: %w; the keys that wrote it have to be in %s", err, keysFile(h.config))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// followKeys takes over the keys of the log whenever their file changes.
func (h *Hub) followKeys(ctx context.Context) error {
	return h.sealer.Follow(ctx, func(ctx context.Context, keys *seal.Keys) error {
		return h.log.CheckReadable(ctx, keys.Covers, keys)
	}, h.log.ResealAll)
}

// registerKeys registers what is measured of how values are kept.
func (h *Hub) registerKeys(registry *prometheus.Registry) {
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_log_reseal_pending", Help: "Values of the log that are yet to be encrypted again by the first key.",
		}, func() float64 { return float64(h.log.Resealed().Pending) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_log_resealed_total", Help: "Values of the log that were encrypted again by the first key.",
		}, func() float64 { return float64(h.log.Resealed().Written) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_log_reseal_failures_total", Help: "Times that encrypting values again failed and was retried.",
		}, func() float64 { return float64(h.log.Resealed().Failures) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_encryption_config_changes_total", Help: "Times that a changed encryption configuration was taken over.",
		}, func() float64 { return float64(h.sealer.Adopted()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_encryption_config_refused", Help: "1 while the encryption configuration has changed and can't be used.",
		}, func() float64 {
			if err := h.sealer.Refused(); err != nil && !errors.Is(err, context.Canceled) {
				return 1
			}
			return 0
		}),
	)
}
