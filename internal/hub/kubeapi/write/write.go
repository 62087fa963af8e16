// Package write decides what a space accepts: every create, update, patch, apply and delete
// of an object goes through it into the log, with the Kubernetes behaviour that clients
// rely on.
//
// It takes the space of a request only from its context, and composes keys only of
// validated segments, so that no request can reach into another space. It must never act
// on what a stored object says, except for those that own other objects: Spaces,
// Namespaces and CustomResourceDefinitions. It never serves lists or watches, and it never
// defaults or changes what a user wrote beyond metadata, status and a Secret's stringData.
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

// DefaultObjectBytes is the size limit, in bytes, of one object as it is stored: the largest
// request to etcd, less its overhead. It has room for 1 MiB of binary data, the most that
// Kubernetes accepts in a Secret, which base64 makes a third larger.
const DefaultObjectBytes = 1472 << 10

// DefaultEventTTL is how long Events are kept after their last change.
const DefaultEventTTL = time.Hour

// cachedCustomKinds is how many custom kinds' storages are kept. That of an evicted kind is
// made again when it is next written.
const cachedCustomKinds = 1024

// cachedSchemas is how many documents' schemas are kept for the rules of Customizers; the
// largest take about 1 MB.
const cachedSchemas = 16

// maxDeciding is how many CRDs of a space are validated at a time. Validation may take a hundred
// times the memory of a CRD.
const maxDeciding = 4

// Config is what a Server needs.
type Config struct {
	// Client reads and writes the log.
	Client *kubernetes.Client
	// Prefix is the log's prefix in etcd, such as "/orrery/".
	Prefix string
	// Table follows the log. It may lag: what it can't prove is read from etcd.
	Table *table.Table
	// Limits are the limits of spaces.
	Limits *quota.Limits
	// Room makes puts wait for room in the log; nil if there always is room.
	Room Room
	// Kinds has the kinds that need no CRD, and compiles those that do.
	Kinds *registry.Registry
	// Authorizer decides whether an update may create; nil allows it.
	Authorizer authorizer.Authorizer
	// Admission refuses objects of Orrery's kinds by who writes them; nil: none.
	Admission admission.ValidationInterface
	// Exports say what is shown to the providers of APIs, and sliced how; nil: nothing is.
	Exports *exports.Engine
	// Follows says which kinds follow by a Placement; nil: all.
	Follows Follows
	// Outdated refuses requests that write objects of a resource of which this hub knows less than
	// another on the log; nil: there is no other.
	Outdated func(key.Resource) error
	// ObjectBytes is the size limit of an object; 0 for DefaultObjectBytes.
	ObjectBytes int
	// EventTTL is how long Events are kept; 0 for DefaultEventTTL.
	EventTTL time.Duration
	// Rules checks the rules of Customizers; nil for one of its own.
	Rules *rules.Engine
	// Summaries compile the expressions of Summaries; nil for a language of its own.
	Summaries *aggregate.Language
	// Foretell says what a write of a policy would do, as it would be stored, or nil if it
	// would be deleted; it is asked in dry runs, and answered as warnings. nil: nothing.
	Foretell func(ctx context.Context, policy key.Object, value []byte) []string
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Validate says what is missing.
func (c Config) Validate() error {
	switch {
	case c.Client == nil || c.Client.Client == nil || c.Client.Kubernetes == nil:
		return errors.New("space config: Client is required")
	case c.Table == nil:
		return errors.New("space config: Table is required")
	case c.Limits == nil:
		return errors.New("space config: Limits are required")
	case c.Kinds == nil:
		return errors.New("space config: Kinds are required")
	case len(c.Prefix) < 3 || c.Prefix[0] != '/' || c.Prefix[len(c.Prefix)-1] != '/':
		return fmt.Errorf("space config: Prefix %q must be a name between two slashes", c.Prefix)
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

// etcdKey is the key of an object in etcd.
func (s *Server) etcdKey(o key.Object) string { return s.config.Prefix + o.Key() }

type contextKey int

const (
	spaceKey contextKey = iota
	admissionKey
	oneStepKey
	passageKey
	namingKey
)

// WithSpace puts the space that a request is about into its context.
func WithSpace(ctx context.Context, space key.Space) context.Context {
	return context.WithValue(ctx, spaceKey, space)
}

// SpaceFromContext is the space of a request's context, as WithSpace put it there; ok is false if
// there is none.
func SpaceFromContext(ctx context.Context) (key.Space, bool) {
	space, ok := ctx.Value(spaceKey).(key.Space)
	return space, ok
}
