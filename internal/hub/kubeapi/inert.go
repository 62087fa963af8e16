package kubeapi

import (
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
)

// needsCluster returns an error for subresources by which Kubernetes acts on an object, since only a
// cluster runs workloads and issues credentials. It returns nil for other subresources.
func needsCluster(kind *kinds.Kind, info *request.RequestInfo) error {
	if !slices.Contains(actingSubresources(kind.GVR.GroupResource().String()), info.Subresource) {
		return nil
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure,
		Code:   http.StatusMethodNotAllowed,
		Reason: metav1.StatusReasonMethodNotAllowed,
		Message: fmt.Sprintf("%s %q has no %s here: a space stores objects and runs nothing; send the request to the cluster of a location",
			kind.GVR.GroupResource(), info.Name, info.Subresource),
		Details: &metav1.StatusDetails{Group: kind.GVR.Group, Kind: kind.GVR.Resource, Name: info.Name},
	}}
}

func actingSubresources(resource string) []string {
	switch resource {
	case "pods":
		return []string{"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize"}
	case "nodes", "services":
		return []string{"proxy"}
	case "serviceaccounts":
		return []string{"token"}
	case "certificatesigningrequests.certificates.k8s.io":
		return []string{"approval"}
	}
	return nil
}
