package kubeapi

import (
	"encoding/json"
	"io"
	"net/http"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/lib/process"
)

// hubVersion is the response to a request for the version. Kubernetes clients ignore the last field.
type hubVersion struct {
	version.Info
	Orrery string `json:"orrery"`
}

// ServeVersion responds with the version of the Kubernetes API that spaces serve, and that of the hub.
func ServeVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	major, rest, _ := strings.Cut(strings.TrimPrefix(openapi.Kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ") // as Kubernetes does
	// If the client has disconnected, nothing needs to be done.
	_ = encoder.Encode(hubVersion{version.Info{
		Major: major, Minor: minor, GitVersion: openapi.Kubernetes + "+orrery",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}, process.Version()})
}

// ServeHealth responds that the hub and its spaces are healthy, unless there is a fault. A supervisor
// restarts a hub that reports a fault.
func ServeHealth(w http.ResponseWriter, fault error) {
	if fault != nil {
		http.Error(w, fault.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = io.WriteString(w, "ok") // errors of the connection are ignored
}
