package hub

import (
	"net/http"
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// kubernetesVersion is the version of the Kubernetes API that spaces serve.
const kubernetesVersion = "v1.36.3"

func (h *Hub) serveVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, version.Info{
		Major: "1", Minor: "36", GitVersion: kubernetesVersion + "+orrery",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
	})
}
