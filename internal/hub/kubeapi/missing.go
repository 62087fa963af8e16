package kubeapi

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
)

// refuseResource answers a request for a resource that is not served, as a kube-apiserver
// does: its router answers with a Status for built-in groups, and with plain text for
// others. Views have no groups but those of the objects in them.
func refuseResource(w http.ResponseWriter, r *http.Request, catalog *kinds.Catalog, info *request.RequestInfo) {
	_, ofSpace := write.SpaceFromContext(r.Context())
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

// asRouted turns the error of a request that has no handler into that of Kubernetes. For
// built-in kinds that is its router's, which does not name the kind.
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
