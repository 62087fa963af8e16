package auth

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/internal/protocol/route"
)

// warningCode is the code of a Warning header without an expiry, see RFC 7234, section 5.5.7.
const warningCode = 299

// explainUnauthenticated adds the reason why a credential is not accepted as a Warning header.
// kubectl prints it for each request; it does not print the message of the Status.
func explainUnauthenticated(w http.ResponseWriter, root route.Root, err error) {
	if !root.Kubernetes() {
		return
	}
	why := toldOf(err)
	if why == unauthorized {
		why = "the hub does not know the credential, or there is none; the kubeconfig may be that of another hub"
	}
	if header, err := utilnet.NewWarningHeader(warningCode, "-", why); err == nil { // else it is not UTF-8
		w.Header().Add("Warning", header)
	}
}

// discoveryPaths are the paths that Kubernetes clients request first.
var discoveryPaths = []string{"/api", "/apis"}

// explainingDiscovery lets authorize add Warning headers to discovery requests.
func explainingDiscovery(next http.Handler) http.Handler {
	recording := filters.WithWarningRecorder(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if info, ok := request.RequestInfoFrom(r.Context()); ok && !info.IsResourceRequest && RootOf(r.Context()).Kubernetes() {
			recording.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// explainForbidden adds a warning to a refused discovery request: kubectl's discovery client does
// not read the Status, so kubectl would print only "unknown". The text does not reveal whether the
// space, location or export exists.
func explainForbidden(ctx context.Context, a authorizer.Attributes, why string) {
	root := RootOf(ctx)
	if a.IsResourceRequest() || !root.Kubernetes() || !slices.Contains(discoveryPaths, a.GetPath()) {
		return
	}
	name := ""
	if who := a.GetUser(); who != nil {
		name = who.GetName()
	}
	text := fmt.Sprintf("user %q has no access to %s, or it does not exist: check the server URL of the kubeconfig, or ask for a Grant", name, root)
	if why != "" {
		text += ": " + why
	}
	warning.AddWarning(ctx, "", text)
}
