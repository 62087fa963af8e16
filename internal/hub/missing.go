package hub

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/space"
)

// refuseResource answers for a resource that nobody serves as a kube-apiserver
// does: its router knows the groups that are built in, and of others nothing.
// Views have no groups but those of what is in them.
func (h *Hub) refuseResource(w http.ResponseWriter, r *http.Request, catalog *kinds.Catalog, info *request.RequestInfo) {
	_, ofSpace := space.SpaceFrom(r.Context())
	if !ofSpace {
		respond.Error(w, r, respond.Unrouted(http.StatusNotFound))
		return
	}
	for _, k := range catalog.Kinds() {
		if k.Custom == nil && k.GVR.Group == info.APIGroup {
			respond.Error(w, r, respond.Unrouted(http.StatusNotFound))
			return
		}
	}
	http.NotFound(w, r)
}

// asRouted is why there is no handler for a request, in the words of
// Kubernetes. For built-in kinds these are its router's, which knows no kinds.
func asRouted(kind *kinds.Kind, err error) error {
	switch {
	case kind.Custom != nil:
	case apierrors.IsMethodNotSupported(err):
		return respond.Unrouted(http.StatusMethodNotAllowed)
	case apierrors.IsNotFound(err):
		return respond.Unrouted(http.StatusNotFound)
	}
	return err
}

// lenient knows what a request is about as Kubernetes does, but takes the path of
// nothing for that, where Kubernetes blames itself.
type lenient struct{ request.RequestInfoResolver }

// NewRequestInfo implements request.RequestInfoResolver.
func (l lenient) NewRequestInfo(r *http.Request) (*request.RequestInfo, error) {
	info, err := l.RequestInfoResolver.NewRequestInfo(r)
	if err != nil {
		return &request.RequestInfo{Path: r.URL.Path, Verb: strings.ToLower(r.Method)}, nil //nolint:nilerr // it is answered below
	}
	return info, nil
}
