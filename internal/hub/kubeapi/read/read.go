// Package read serves reads: get, list and watch of a space, of all spaces and of what is
// desired at a location. Each is a Lens over the one table: which rows belong to it and how
// they look; one generic reader serves them all through k8s.io/apiserver's handlers.
//
// Answers in JSON are the table's bytes with a few fields spliced in while they are
// written, and those in protobuf are made of them; only other forms are decoded. The package must never write, keep a copy of what
// the table holds, or answer from a state older than the caller may see: a read that can't
// be right is an error (410, 504), never silence.
package read

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Config is what a Server needs.
type Config struct {
	// Table is read and subscribed to.
	Table *table.Table
	// Renderer renders rows for locations.
	Renderer *render.Renderer
	// Committed waits until the table shows what was acknowledged to anybody before the
	// call, or fails when that can't be known.
	Committed func(context.Context) error
	// Defines, if set, says whether a space still defines a kind the same way. Watches of a
	// kind end when its space has redefined it. DefinedBy, set with it, has the keys of the rows
	// that say so.
	Defines   func(key.Space, *kinds.Kind) bool
	DefinedBy func(key.Space, *kinds.Kind) []string
	// Premises, if set, are the premises of a request's access. Watches end when one of them
	// no longer holds; its End is not used.
	Premises func(context.Context) []table.Condition
	// Complete, if set, returns the bytes to show of a row in place of those in the log, or
	// nil: it adds what is computed on reads. It is called each time a row is shown, and
	// causes no events.
	Complete func(*table.Row) []byte
	// Counts, if set, counts the states of a row's object at its locations. Tables of spaces
	// show them; it is called for each row of a table, and causes no events.
	Counts func(*table.Row) v1alpha1.Counts
	// WatchTimeout is the shortest time after which a watch ends that does not ask for a
	// timeout; the longest is twice that.
	WatchTimeout time.Duration
	// BookmarkEvery is the interval of bookmarks for watches that allow them.
	BookmarkEvery time.Duration
	// FutureWait is how long a read waits for a revision that the client names and the table
	// has not reached, before it asks the log, and answers 504 if there is none.
	FutureWait time.Duration
	// PageKeep is how long the state of a list is kept for its next page, and
	// PageStates how many such states are kept at most.
	PageKeep   time.Duration
	PageStates int
	// DecodedListBytes is how many bytes the objects of one list may take in the log if the
	// answer has to be decoded.
	DecodedListBytes int
}

// DefaultConfig has the times and sizes of a hub; Table, Renderer and
// Committed are missing.
func DefaultConfig() Config {
	return Config{
		WatchTimeout:     30 * time.Minute,
		BookmarkEvery:    time.Minute,
		FutureWait:       3 * time.Second,
		PageKeep:         2 * time.Minute,
		PageStates:       64,
		DecodedListBytes: 64 << 20,
	}
}

// Validate says what is wrong with a configuration.
func (c Config) Validate() error {
	if c.Table == nil || c.Renderer == nil || c.Committed == nil {
		return errors.New("view config: Table, Renderer and Committed are required")
	}
	for _, d := range []time.Duration{c.WatchTimeout, c.BookmarkEvery, c.FutureWait, c.PageKeep} {
		if d <= 0 {
			return errors.New("view: times must be positive")
		}
	}
	if c.PageStates <= 0 || c.DecodedListBytes <= 0 {
		return errors.New("view: sizes must be positive")
	}
	return nil
}

// Server serves reads. It is safe for concurrent use.
type Server struct {
	config    Config
	shapes    shapes
	pages     pages
	recent    recent
	buffers   buffers
	partial   *shape
	fallbacks atomic.Int64

	mu      sync.Mutex
	closed  bool
	done    chan struct{}
	watches sync.WaitGroup
}

// New makes a Server, which the caller must Close.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Server{
		config:  config,
		pages:   pages{keep: config.PageKeep, limit: config.PageStates},
		partial: partialShape(),
		done:    make(chan struct{}),
	}, nil
}

// Close ends all watches and waits for them. Later watches are refused.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	s.mu.Unlock()
	s.watches.Wait()
}

// begin counts a watch; the caller calls s.watches.Done when it has ended.
func (s *Server) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return respond.NotNow("the server is shutting down")
	}
	s.watches.Add(1)
	return nil
}

// Fallbacks counts encodings that went through a decoded object for no known reason. It
// should stay zero: otherwise the libraries name their encoders in a new way, and every read
// costs several times more.
func (s *Server) Fallbacks() int64 { return s.fallbacks.Load() }

func (s *Server) reader(l Lens, k *kinds.Kind) *reader {
	r := &reader{server: s, lens: l, kind: k, shape: s.shapes.of(k), look: l.looks(s.config.Table, k)}
	if r.look.metadataOnly {
		r.shape = s.partial
	}
	return r
}

// Handler serves a get, list or watch of one kind through a lens. Other verbs
// and subresources are not allowed.
func (s *Server) Handler(l Lens, k *kinds.Kind, info *request.RequestInfo) (http.HandlerFunc, error) {
	if info.Subresource != "" && info.Subresource != kinds.StatusSubresource {
		return nil, apierrors.NewNotFound(k.GVR.GroupResource(), info.Name+"/"+info.Subresource)
	}
	if misplaced(k, info) {
		return nil, apierrors.NewNotFound(k.GVR.GroupResource(), info.Name)
	}
	r, scope := s.reader(l, k), k.Scope(info.Subresource)
	if scope == nil {
		return nil, apierrors.NewNotFound(k.GVR.GroupResource(), info.Name+"/"+info.Subresource)
	}
	scope.TableConvertor = r
	if r.look.metadataOnly {
		scope.Serializer, scope.StandardSerializers = apihelpers.GetMetaInternalVersionCodecs(), nil
		scope.Kind, scope.Convertor = metadataGVK(), partialConvertor{scope.Convertor, scope.Kind}
	}
	switch {
	case info.Verb == "get" && !r.look.shared:
		return handlers.GetResource(r, scope), nil
	case info.Verb == "list":
		return r.tabled(scope, cuttable(handlers.ListResource(r, r, scope, false, s.config.WatchTimeout))), nil
	case info.Verb == "watch":
		return r.watching(scope, handlers.ListResource(r, r, scope, true, s.config.WatchTimeout)), nil
	}
	return nil, apierrors.NewMethodNotSupported(k.GVR.GroupResource(), info.Verb)
}

// misplaced says that a path can't exist: a cluster-scoped resource below a namespace, or a
// name of a namespaced one without a namespace.
func misplaced(k *kinds.Kind, info *request.RequestInfo) bool {
	switch {
	case k.Namespaced:
		return info.Namespace == "" && info.Verb == "get" // in lists the name comes from a selector
	case k.Resource == key.Namespaces: // the path of a namespace itself is below it
		return info.Namespace != "" && info.Namespace != info.Name
	}
	return info.Namespace != ""
}

// unavailable turns a failed wait into an error that tells clients to retry.
func unavailable(step string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewTimeoutError(fmt.Sprintf("%s: %v", step, err), 1)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: %v", step, err))
}
