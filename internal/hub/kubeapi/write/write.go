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
	"sync"
	"time"

	"go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/utils/lru"

	"orrery.dev/orrery/internal/hub/engine/aggregate"
	"orrery.dev/orrery/internal/hub/engine/kindrules"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// cachedCustomKinds is the number of custom kinds whose storages are cached.
const cachedCustomKinds = 1024

// cachedSchemas is the number of documents whose schemas are cached for the rules of policies. The
// largest take about 1 MB.
const cachedSchemas = 16

// maxDeciding is the number of CRDs of a space that are validated concurrently. Validation may take a
// hundred times the memory of a CRD.
const maxDeciding = 4

// Server accepts writes into spaces. It is safe for concurrent use and runs no
// goroutines of its own.
type Server struct {
	// Finisher completes deletions.
	*Finisher
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
	if config.KindRules == nil {
		var err error
		if config.KindRules, err = kindrules.New(); err != nil {
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
	s.Finisher = &Finisher{rewriter{s.client, config.Prefix, config.Table, config.Now}, s.explain}
	return s, nil
}

// etcdKey returns the etcd key of an object.
func (s *Server) etcdKey(o key.Object) string { return s.config.Prefix + o.Key() }
