package hub

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"orrery.dev/orrery/internal/kinds/openapi"
)

// serveVersion says which version of the Kubernetes API spaces serve.
func (h *Hub) serveVersion(w http.ResponseWriter, _ *http.Request) {
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
