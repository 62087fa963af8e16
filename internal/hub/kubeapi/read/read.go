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
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/handlers"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/read/tables"
	"orrery.dev/orrery/internal/protocol/key"
)

// Server serves reads. It is safe for concurrent use.
type Server struct {
	config  Config
	formats formats
	pages   pages
	waiter  revisionWaiter
	watches watches
}

// New makes a Server, which the caller must Close.
func New(config Config) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Server{
		config:  config,
		pages:   pages{keep: config.PageKeep, limit: config.PageStates},
		formats: formats{partial: partialShape(), decodedBytes: config.DecodedListBytes},
		waiter:  revisionWaiter{table: config.Table, committed: config.Committed, limit: config.FutureWait},
		watches: watches{done: make(chan struct{})},
	}, nil
}

// Close ends all watches and waits for them. Later watches are refused.
func (s *Server) Close() { s.watches.close() }

// Fallbacks counts encodings that decoded an object because the encoder is unknown. It should stay
// zero. If it does not, a library names its encoders in a new way, and reads cost several times
// more.
func (s *Server) Fallbacks() int64 { return s.formats.fallbacks.Load() }

func (s *Server) reader(l Lens, k *kinds.Kind) *reader {
	v := newView(&s.config, l, k)
	return &reader{
		config: &s.config, waiter: &s.waiter, pages: &s.pages, watches: &s.watches,
		view: v, history: &history{v}, format: s.formats.format(v),
		tableConvertor: &tableConvertor{view: v, counts: s.config.Counts, decodedBytes: s.config.DecodedListBytes},
	}
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
	if r.view.display.metadataOnly {
		scope.Serializer, scope.StandardSerializers = apihelpers.GetMetaInternalVersionCodecs(), nil
		scope.Kind, scope.Convertor = metadataGVK(), partialConvertor{scope.Convertor, scope.Kind}
	}
	switch {
	case info.Verb == "get" && !r.view.display.shared:
		return handlers.GetResource(r, scope), nil
	case info.Verb == "list":
		return tables.Handler(tableSource{r}, scope, cuttable(handlers.ListResource(r, r, scope, false, s.config.WatchTimeout))), nil
	case info.Verb == "watch":
		return watching(r, scope, handlers.ListResource(r, r, scope, true, s.config.WatchTimeout)), nil
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
