package hub

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"orrery.dev/orrery/internal/access"
	"orrery.dev/orrery/internal/issuers"
)

// openIssuers reads who else says who people are; nil: nobody does.
func openIssuers(ctx context.Context, config Config) (*issuers.Issuers, error) {
	if config.AuthenticationConfig == "" {
		return nil, nil //nolint:nilnil // there is no file
	}
	return issuers.Open(ctx, config.AuthenticationConfig, config.Logger)
}

// followIssuers takes over the file of issuers whenever it changes.
func (h *Hub) followIssuers(ctx context.Context) error {
	if h.issuers == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	return h.issuers.Follow(ctx)
}

// audited is who sees requests; nil: nobody does.
func (h *Hub) audited() access.Audit {
	if h.audit == nil {
		return nil
	}
	return h.audit
}

// seen has the audit log see what is served to whom access does not know.
func (h *Hub) seen(serve http.HandlerFunc) http.Handler {
	if h.audit == nil {
		return serve
	}
	return h.audit.Admitted(serve)
}

// registerIssuers registers what is measured of the file of issuers.
func (h *Hub) registerIssuers(registry *prometheus.Registry) {
	if h.issuers == nil {
		return
	}
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "orrery_authentication_config_refused", Help: "1 while the authentication configuration has changed and can't be used.",
		}, func() float64 {
			if refused, _ := h.issuers.Refused(); refused {
				return 1
			}
			return 0
		}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "orrery_authentication_config_failures_total", Help: "Times that the authentication configuration had changed and could not be used.",
		}, func() float64 { _, failures := h.issuers.Refused(); return float64(failures) }),
	)
}
