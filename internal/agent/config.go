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

// Config is what an agent needs.
type Config struct {
	// Join says which hub to follow, for which location. Its token is traded for a
	// credential, which the data directory keeps, unless one goes back to it already.
	Join wire.Join
	// Given says that Join is new with this start: then it is an error if it is refused,
	// even if there is a credential from before.
	Given bool
	// Target is the cluster to map to. Client-side rate limits in it are ignored.
	Target *rest.Config
	// ReloadTarget returns the configuration of the same cluster as it is now: credentials change while the
	// agent runs. It may be called from any goroutine. Nil: Target never changes.
	ReloadTarget func() (*rest.Config, error)
	// DataDir holds the store. It is created readable by its owner only.
	DataDir string
	// StoreKey is a secret of at least store.MinKey bytes by which the store is encrypted,
	// and the agent's credential. Nil: they are not.
	StoreKey []byte
	// Version is the agent's own version, as the hub is told.
	Version string
	// Logger gets no secrets. Nil: nothing is logged.
	Logger *slog.Logger
	// Metrics, if not nil, gets the agent's collectors when Run starts.
	Metrics prometheus.Registerer
	// Workers bounds how many objects are worked on at once; the actual number adapts
	// to the target. Zero: a default that suits one API server.
	Workers int
	// Proxy is by which proxy the hub is reached.
	Proxy hubclient.Proxy
	// Shard is the part of the location that the agent has. If that is not the whole, it acts
	// only while it holds a Lease in LeaseNamespace at the target, which counts as held for
	// LeaseDuration unless it is renewed, and else only while there is none there; zero: a
	// default. Both must be the same for all agents of a location.
	Shard          key.Shard
	LeaseNamespace string
	LeaseDuration  time.Duration
	// MutatedRetry is the first wait before an object that admission at the target has
	// changed is applied again. It doubles each time, up to a bound. Zero: a default.
	MutatedRetry time.Duration
}

// Validate returns what is missing or wrong, nil if nothing is.
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
