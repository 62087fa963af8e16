// Package discovery serves the description of a catalog of kinds as kube-apiserver does: both forms
// of discovery, and OpenAPI.
//
// It must describe only the kinds of the catalog.
package discovery

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/negotiation"

	"orrery.dev/orrery/internal/hub/kinds"
)

// maxMerges is how many documents of many megabytes are made at once.
const maxMerges = 2

// Server answers discovery and OpenAPI: /api, /apis and below them the groups
// and versions, /openapi/v2 and /openapi/v3. Other paths are not found.
//
// Answers are made for each request and not kept: most catalogs are seldom asked for, and
// clients keep the answers themselves.
type Server struct {
	// merges bounds how many large documents are made at once.
	merges chan struct{}
}

// NewServer makes a server for all catalogs.
func NewServer() *Server { return &Server{merges: make(chan struct{}, maxMerges)} }

// Handler answers for a catalog that is served below a path, such as "/spaces/NAME",
// which the path of a request does not have any more. Links begin with /openapi/v3: by
// that clients know to put before them what they have put before the API's own path,
// which balancers may change on the way.
func (s *Server) Handler(catalog *kinds.Catalog) http.Handler {
	a := answers{Catalog: catalog, merges: s.merges}
	return http.HandlerFunc(a.serve)
}

func (c answers) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "discovery can only be read", http.StatusMethodNotAllowed)
		return
	}
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case len(path) == 1 && path[0] == "api":
		c.serveRoot(w, r, true)
	case len(path) == 1 && path[0] == "apis":
		c.serveRoot(w, r, false)
	case len(path) == 2 && path[0] == "apis":
		c.serveGroup(w, r, path[1])
	case len(path) == 2 && path[0] == "api":
		c.serveVersion(w, r, schema.GroupVersion{Version: path[1]})
	case len(path) == 3 && path[0] == "apis":
		c.serveVersion(w, r, schema.GroupVersion{Group: path[1], Version: path[2]})
	case len(path) >= 2 && path[0] == "openapi":
		c.serveOpenAPI(w, r, path[1:])
	default:
		http.NotFound(w, r)
	}
}

// serveRoot answers for all groups, or for the core group alone, which has a
// root of its own: as one document for clients that know it, else as a list.
func (c answers) serveRoot(w http.ResponseWriter, r *http.Request, core bool) {
	codecs := discoveryCodecs()
	mediaType, _ := negotiation.NegotiateMediaTypeOptions(r.Header.Get("Accept"),
		codecs.aggregated.SupportedMediaTypes(), aggregated.DiscoveryEndpointRestrictions)
	if aggregated.IsAggregatedDiscoveryGVK(mediaType.Convert) {
		c.serveAggregated(w, r, core, mediaType.Convert.GroupVersion())
		return
	}
	addresses := discovery.DefaultAddresses{DefaultAddress: r.Host}
	switch {
	case core && len(c.version(schema.GroupVersion{Version: "v1"}).kinds) == 0:
		// The library's handler would promise a version that is not there.
		http.NotFound(w, r)
		return
	case core:
		discovery.NewLegacyRootAPIHandler(addresses, codecs.plain, "/api").ServeHTTP(w, r)
		return
	}
	h := discovery.NewRootAPIsHandler(addresses, codecs.plain)
	for _, g := range c.groups() {
		h.AddGroup(g)
	}
	h.ServeHTTP(w, r)
}

func (c answers) serveAggregated(w http.ResponseWriter, r *http.Request, core bool, gv schema.GroupVersion) {
	list := c.aggregate(core)
	data, err := json.Marshal(list)
	if err != nil {
		http.Error(w, "encode discovery: "+err.Error(), http.StatusInternalServerError)
		return
	}
	aggregated.ServeHTTPWithETag(list, etagOf(data), gv, discoveryCodecs().aggregated, w, r)
}

func (c answers) serveGroup(w http.ResponseWriter, r *http.Request, name string) {
	for _, g := range c.groups() {
		if g.Name == name {
			discovery.NewAPIGroupHandler(discoveryCodecs().plain, g).ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

func (c answers) serveVersion(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) {
	v := c.version(gv)
	if len(v.kinds) == 0 {
		http.NotFound(w, r)
		return
	}
	list := discovery.APIResourceListerFunc(func() []metav1.APIResource { return c.resources(v) })
	discovery.NewAPIVersionHandler(discoveryCodecs().plain, gv, list).ServeHTTP(w, r)
}

// codecs encode the two forms of discovery.
type codecs struct{ plain, aggregated runtime.NegotiatedSerializer }

var discoveryCodecs = sync.OnceValue(func() codecs {
	aggregated := runtime.NewScheme()
	utilruntime.Must(apidiscoveryv2.AddToScheme(aggregated))
	return codecs{
		plain:      serializer.NewCodecFactory(kinds.NewMetaScheme()),
		aggregated: serializer.NewCodecFactory(aggregated),
	}
})
