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
	return notHere(kind, info, fmt.Sprintf("%s %q has no %s here: a space stores objects and runs nothing; send the request to the cluster of a location",
		kind.GVR.GroupResource(), info.Name, info.Subresource))
}

// commandHeader contains the command of kubectl that makes a request, such as "kubectl logs".
const commandHeader = "Kubectl-Command"

// needsPods refuses the requests by which kubectl commands look for the Pods or the revisions of a
// workload. Only a cluster has these. Without an error, kubectl would wait up to a minute for a Pod
// to start. It returns nil for other commands and clients. It refuses kubectl debug --copy-to, too: that would create
// the description of a Pod and wait for it, and its first request is the same as without the option.
func needsPods(kind *kinds.Kind, info *request.RequestInfo, header http.Header) error {
	command := header.Get(commandHeader)
	switch resource := kind.GVR.GroupResource().String(); command {
	case "kubectl attach", "kubectl cp", "kubectl debug", "kubectl exec", "kubectl logs", "kubectl port-forward":
		if resource != "pods" {
			return nil
		}
		return notHere(kind, info, command+` needs a running Pod, and a space stores objects and runs nothing: `+
			`"orrery status KIND/NAME" lists the locations of an object; use a kubeconfig of one of their clusters`)
	case "kubectl rollout undo":
		if resource != "replicasets.apps" && resource != "controllerrevisions.apps" {
			return nil
		}
		return notHere(kind, info, command+" needs the revisions of a workload, and a space does not keep any: "+
			"apply the former manifest from its source instead, such as a Git repository; helm rollback works")
	}
	return nil
}

// notHere returns the error for a request that only a cluster can serve.
func notHere(kind *kinds.Kind, info *request.RequestInfo, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusMethodNotAllowed,
		Reason:  metav1.StatusReasonMethodNotAllowed,
		Message: message,
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
