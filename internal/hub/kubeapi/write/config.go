package write

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/kindrules"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kinds/registry"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// DefaultObjectBytes is the size limit of one stored object in bytes: the largest request to etcd,
// less its overhead. It allows 1 MiB of binary data, the limit of Kubernetes for a Secret, which
// base64 enlarges by a third.
const DefaultObjectBytes = 1472 << 10

// DefaultEventTTL is how long Events are kept after their last change.
const DefaultEventTTL = time.Hour

// Config configures a Server.
type Config struct {
	// Client reads and writes the log.
	Client *kubernetes.Client
	// Prefix is the log's prefix in etcd, such as "/orrery/".
	Prefix string
	// Table follows the log. It may lag; the log decides where that matters.
	Table *table.Table
	// Limits are the limits of spaces.
	Limits *quota.Limits
	// Room delays puts until the log has space; nil for no quota.
	Room Room
	// Kinds has the built-in kinds, and compiles CRDs.
	Kinds *registry.Registry
	// Authorizer decides whether an update may create an object; nil allows it.
	Authorizer authorizer.Authorizer
	// Admission refuses objects of Orrery's kinds by user; nil accepts all.
	Admission admission.ValidationInterface
	// Exports determines the export views and slices of objects; nil for none.
	Exports *exports.Engine
	// Follows returns the kinds that follow by a Placement; nil for all.
	Follows Follows
	// Outdated refuses writes of a resource of which a newer hub with the same log knows more; nil
	// for none.
	Outdated func(key.Resource) error
	// ObjectBytes is the size limit of an object; 0 for DefaultObjectBytes.
	ObjectBytes int
	// EventTTL is how long Events are kept; 0 for DefaultEventTTL.
	EventTTL time.Duration
	// Rules checks the rules of Customizers; nil for a new engine.
	Rules *rules.Engine
	// Summaries compiles the expressions of Summaries; nil for a new language.
	Summaries *aggregate.Language
	// KindRules compiles the expressions of KindRules; nil for a new language.
	KindRules *kindrules.Language
	// Preview describes the effects of a policy with a value, or of its deletion if value is nil.
	// Dry runs return the lines as warnings. nil for no preview.
	Preview func(ctx context.Context, policy key.Object, value []byte) []string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Validate checks that required fields are set.
func (c Config) Validate() error {
	switch {
	case c.Client == nil || c.Client.Client == nil || c.Client.Kubernetes == nil:
		return errors.New("write config: Client is required")
	case c.Table == nil:
		return errors.New("write config: Table is required")
	case c.Limits == nil:
		return errors.New("write config: Limits are required")
	case c.Kinds == nil:
		return errors.New("write config: Kinds are required")
	case len(c.Prefix) < 3 || c.Prefix[0] != '/' || c.Prefix[len(c.Prefix)-1] != '/':
		return fmt.Errorf("write config: Prefix %q must be a name between two slashes", c.Prefix)
	}
	return nil
}
