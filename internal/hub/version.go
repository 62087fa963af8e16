package hub

import (
	"encoding/json"
	"net/http"
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// kubernetesVersion is the version of the Kubernetes API that spaces serve.
const kubernetesVersion = "v1.36.3"

func (h *Hub) serveVersion(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ") // as Kubernetes does for whoever asks
	// A client that is gone needs no answer.
	_ = encoder.Encode(version.Info{
		Major: "1", Minor: "36", GitVersion: kubernetesVersion + "+orrery",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
