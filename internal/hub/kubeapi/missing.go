package kubeapi

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
)

// refuseResource responds to a request for a resource that is not served, as kube-apiserver does: with
// a Status for built-in groups, and with plain text for others. The views of locations, reports and
// exports always respond with a Status.
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

// asRouted returns the error with which Kubernetes responds to a request that has no handler. For
// built-in kinds this is the error of its router, which does not name the kind.
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
