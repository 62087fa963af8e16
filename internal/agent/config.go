package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/fencing"
	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Config is the configuration of an agent.
type Config struct {
	// Join names the hub and the location. Its token is exchanged for a credential, which is
	// stored in the data directory, unless the agent has already joined with this token.
	Join wire.Join
	// Given reports whether Join is new with this start: then its rejection is an error,
	// even if there is an earlier credential.
	Given bool
	// Target is the agent's cluster. Client-side rate limits in it are ignored.
	Target *rest.Config
	// ReloadTarget returns the configuration of the same cluster as it is now: credentials change while the
	// agent runs. It may be called from any goroutine. Nil: Target never changes.
	ReloadTarget func() (*rest.Config, error)
	// DataDir holds the store. It is created readable by its owner only.
	DataDir string
	// StoreKey is a secret of at least store.MinKey bytes with which the store and the agent's
	// credential are encrypted; nil if they are not encrypted.
	StoreKey []byte
	// Version is the agent's version, which is reported to the hub.
	Version string
	// Logger receives no secrets. Nil: nothing is logged.
	Logger *slog.Logger
	// Metrics, if not nil, gets the agent's collectors when Run starts.
	Metrics prometheus.Registerer
	// Workers bounds the number of concurrent workers; the actual number adapts to the
	// target. Zero: a default that suits one API server.
	Workers int
	// Proxy is the proxy to the hub.
	Proxy hubclient.Proxy
	// Shard is the agent's shard of the location. If it is not the whole location, the agent
	// acts only while it holds a Lease in LeaseNamespace at the target, which expires after
	// LeaseDuration unless it is renewed. An agent of the whole location acts only while no
	// such Lease is held. Zero values stand for defaults; both must be the same for all agents
	// of a location.
	Shard          key.Shard
	LeaseNamespace string
	LeaseDuration  time.Duration
	// MutatedRetry is the first wait before an object is applied again that admission at the
	// target has changed. It doubles each time, up to a bound. Zero: a default.
	MutatedRetry time.Duration
}

// Validate returns an error if a field is missing or invalid.
func (c *Config) Validate() error {
	switch {
	case c.Target == nil:
		return errors.New("agent: no target")
	case c.DataDir == "":
		return errors.New("agent: no data directory")
	case c.StoreKey != nil && len(c.StoreKey) < store.MinKey:
		return fmt.Errorf("agent: the key of the store has %d bytes, want at least %d", len(c.StoreKey), store.MinKey)
	case c.Workers < 0:
		return fmt.Errorf("agent: %d workers", c.Workers)
	case c.MutatedRetry < 0:
		return fmt.Errorf("agent: negative retry delay %s", c.MutatedRetry)
	case c.LeaseDuration != 0 && (c.LeaseDuration < time.Second || c.LeaseDuration > fencing.MaxDuration):
		return fmt.Errorf("agent: a Lease for %s: want 1s to %s", c.LeaseDuration, fencing.MaxDuration)
	case max(1, c.Join.Shard) != c.Shard.Number():
		return fmt.Errorf("agent: the join token is for shard %d of the location, and the agent for %s", max(1, c.Join.Shard), c.Shard)
	}
	if err := key.ValidateName(c.Join.Location); err != nil {
		return fmt.Errorf("agent: location: %w", err)
	}
	return c.Join.Validate()
}
