// Package read serves get, list and watch for the Kubernetes APIs of the hub: spaces, all spaces
// at once, export views, reports, and the objects that are desired at a location. Each of these is
// a Lens over the same table: it selects rows and describes how clients see them. One generic
// reader serves all of them with the handlers of k8s.io/apiserver.
//
// JSON responses are the table's bytes with a few fields inserted while they are written, and
// protobuf responses are converted from these. Only other forms decode objects. The package never
// writes, and keeps no copy of the table. It never answers from a state older than the request
// allows: a read that can't be correct fails with 410 or 504.
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

// Config configures a Server.
type Config struct {
	// Table is the source of all reads and watches.
	Table *table.Table
	// Renderer renders rows for locations.
	Renderer *render.Renderer
	// Committed blocks until the table contains every write that was acknowledged before the
	// call. It fails if that can't be determined.
	Committed func(context.Context) error
	// Defines, if set, reports whether a space still defines a kind in the same way. If it does
	// not, watches of the kind end. DefinedBy, set with it, returns the keys of the objects that
	// define the kind.
	Defines   func(key.Space, *kinds.Kind) bool
	DefinedBy func(key.Space, *kinds.Kind) []string
	// StreamConditions, if set, returns the stream conditions of a request's access. A watch
	// ends when one of them no longer holds. Their End is not used.
	StreamConditions func(context.Context) []table.Condition
	// Complete, if set, returns the bytes of a row that clients read instead of the stored
	// ones, or nil. It adds fields that are computed on each read; their changes cause no events.
	Complete func(*table.Row) []byte
	// Counts, if set, counts the states of a row's object at its locations, for each row of a
	// table of a space. Changes of the counts cause no events. It fails if the counts are unknown
	// when the context ends.
	Counts func(context.Context, *table.Row) (v1alpha1.Counts, error)
	// WatchTimeout is the minimum duration of a watch that does not request a timeout; the
	// maximum is twice that.
	WatchTimeout time.Duration
	// BookmarkEvery is the interval of bookmarks for watches that allow them.
	BookmarkEvery time.Duration
	// FutureWait is how long a read waits for a revision that the client names and the table
	// has not reached. After that, the read asks the log, and fails with 504 if the revision
	// does not exist.
	FutureWait time.Duration
	// PageKeep is how long the state of a list is kept for its next page, and
	// PageStates how many such states are kept at most.
	PageKeep   time.Duration
	PageStates int
	// DecodedListBytes limits the stored bytes of the objects of a list that have to be decoded.
	DecodedListBytes int
}

// DefaultConfig returns the timeouts and limits of a hub. The caller sets Table, Renderer and
// Committed.
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

// Validate checks that the required fields are set and that limits are positive.
func (c Config) Validate() error {
	if c.Table == nil || c.Renderer == nil || c.Committed == nil {
		return errors.New("read config: Table, Renderer and Committed are required")
	}
	for _, d := range []time.Duration{c.WatchTimeout, c.BookmarkEvery, c.FutureWait, c.PageKeep} {
		if d <= 0 {
			return errors.New("read config: times must be positive")
		}
	}
	if c.PageStates <= 0 || c.DecodedListBytes <= 0 {
		return errors.New("read config: sizes must be positive")
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

// Fallbacks counts encodings that decoded an object because the encoder is unknown. It should stay
// zero. If it does not, a library names its encoders in a new way, and reads cost several times
// more.
func (s *Server) Fallbacks() int64 { return s.fallbacks.Load() }

func (s *Server) reader(l Lens, k *kinds.Kind) *reader {
	r := &reader{server: s, lens: l, kind: k, shape: s.shapes.get(k), display: l.display(s.config.Table, k)}
	if r.display.metadataOnly {
		r.shape = s.partial
	}
	return r
}

// Handler serves a get, list or watch of one kind through a lens. It returns an error for other
// verbs and subresources.
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
	if r.display.metadataOnly {
		scope.Serializer, scope.StandardSerializers = apihelpers.GetMetaInternalVersionCodecs(), nil
		scope.Kind, scope.Convertor = metadataGVK(), partialConvertor{scope.Convertor, scope.Kind}
	}
	switch {
	case info.Verb == "get" && !r.display.shared:
		return handlers.GetResource(r, scope), nil
	case info.Verb == "list":
		return r.tabled(scope, cuttable(handlers.ListResource(r, r, scope, false, s.config.WatchTimeout))), nil
	case info.Verb == "watch":
		return r.watching(scope, handlers.ListResource(r, r, scope, true, s.config.WatchTimeout)), nil
	}
	return nil, apierrors.NewMethodNotSupported(k.GVR.GroupResource(), info.Verb)
}

// misplaced reports whether a path can't exist: a cluster-scoped resource below a namespace, or a
// name of a namespaced resource without a namespace.
func misplaced(k *kinds.Kind, info *request.RequestInfo) bool {
	switch {
	case k.Namespaced:
		return info.Namespace == "" && info.Verb == "get" // in lists the name comes from a selector
	case k.Resource == key.Namespaces: // the path of a namespace itself is below it
		return info.Namespace != "" && info.Namespace != info.Name
	}
	return info.Namespace != ""
}

// unavailable turns a failed wait into an error that makes clients retry.
func unavailable(step string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewTimeoutError(fmt.Sprintf("%s: %v", step, err), 1)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("%s: %v", step, err))
}
