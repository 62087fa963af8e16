package kubeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

// ServeVersion says which version of the Kubernetes API spaces serve.
func ServeVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	major, rest, _ := strings.Cut(strings.TrimPrefix(openapi.Kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ") // as Kubernetes does
	// A client that is gone needs no answer.
	_ = encoder.Encode(version.Info{
		Major: major, Minor: minor, GitVersion: openapi.Kubernetes + "+orrery",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}

// ServeHealth answers that the hub is healthy, and so are the spaces in it, unless there is a fault:
// a supervisor then restarts the hub.
func ServeHealth(w http.ResponseWriter, fault error) {
	if fault != nil {
		http.Error(w, fault.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "ok") // a client that is gone needs no answer
}
