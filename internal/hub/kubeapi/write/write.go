// Package write serves writes of objects in spaces: every create, update, patch, apply and delete. It
// validates them and writes to the log, with the behaviour of Kubernetes that clients rely on.
//
// The space of a request comes only from its context, and keys consist only of validated segments,
// so no request can reach into another space. Stored objects have no effect here, except those that
// own other objects: Spaces, Namespaces, CustomResourceDefinitions and APIBindings. The package
// serves no lists or watches. It neither defaults nor changes a user's object, except metadata,
// status and the stringData of Secrets.
package write

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/exports"
	"orrery.dev/orrery/internal/hub/engine/quota"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kinds"
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

// cachedCustomKinds is the number of custom kinds whose storages are cached.
const cachedCustomKinds = 1024

// cachedSchemas is the number of documents whose schemas are cached for the rules of Customizers. The
// largest take about 1 MB.
const cachedSchemas = 16

// maxDeciding is the number of CRDs of a space that are validated concurrently. Validation may take a
// hundred times the memory of a CRD.
const maxDeciding = 4

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

// Server accepts writes into spaces. It is safe for concurrent use and runs no
// goroutines of its own.
type Server struct {
	config Config
	client *kubernetes.Client

	mu       sync.Mutex
	builtins map[*kinds.Kind]*resource
	customs  *lru.Cache

	// schemas has the schemas of kinds, by document.
	schemas *lru.Cache

	// definitions serializes the writes of CRDs and APIBindings of a space, which must agree on names.
	definitions *locks
	// deciding bounds the CRDs of a space that are validated at a time.
	deciding *locks
}

// New makes a Server.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.ObjectBytes == 0 {
		config.ObjectBytes = DefaultObjectBytes
	}
	if config.EventTTL == 0 {
		config.EventTTL = DefaultEventTTL
	}
	if config.Room == nil {
		config.Room = endless{}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Summaries == nil {
		var err error
		if config.Summaries, err = aggregate.New(); err != nil {
			return nil, err
		}
	}
	if config.Rules == nil {
		var err error
		if config.Rules, err = rules.New(); err != nil {
			return nil, err
		}
	}
	if config.Follows == nil {
		config.Follows = followAll
	}
	if config.Outdated == nil {
		config.Outdated = func(key.Resource) error { return nil }
	}
	boundCopies()
	s := &Server{
		config:      config,
		builtins:    map[*kinds.Kind]*resource{},
		customs:     lru.New(cachedCustomKinds),
		schemas:     lru.New(cachedSchemas),
		definitions: newLocks(1),
		deciding:    newLocks(maxDeciding),
	}
	s.client = &kubernetes.Client{
		Client: config.Client.Client,
		Kubernetes: ownedPuts{
			Interface: config.Client.Kubernetes, kv: config.Client.KV,
			prefix: config.Prefix, table: config.Table, limits: config.Limits, room: config.Room,
		},
	}
	return s, nil
}

// etcdKey returns the etcd key of an object.
func (s *Server) etcdKey(o key.Object) string { return s.config.Prefix + o.Key() }

type contextKey int

const (
	spaceKey contextKey = iota
	admissionKey
	oneStepKey
	exportWriteKey
	namingKey
)

// WithSpace adds the space of a request to its context.
func WithSpace(ctx context.Context, space key.Space) context.Context {
	return context.WithValue(ctx, spaceKey, space)
}

// SpaceFromContext returns the space that WithSpace added; ok is false if there is none.
func SpaceFromContext(ctx context.Context) (key.Space, bool) {
	space, ok := ctx.Value(spaceKey).(key.Space)
	return space, ok
}
