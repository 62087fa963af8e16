// Package route defines the paths of the hub's API, for hub, agents and the command line.
//
// It must not depend on the handler of a path, nor on the rights of its users.
package route

import (
	"net/url"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// API is a kind of root. All paths below a root belong to one space, one location, or both.
type API string

const (
	// Spaces are Kubernetes-compatible APIs, one for each space: /spaces/NAME.
	Spaces API = "/spaces/"
	// Views are Kubernetes-compatible, read-only APIs of the objects desired at a location.
	Views API = "/views/locations/"
	// ReportViews are Kubernetes-compatible APIs of the reports of locations, for one or all spaces
	// and one or all locations: /views/reports/spaces/SPACE/locations/LOCATION.
	ReportViews API = "/views/reports/"
	// Exports are Kubernetes-compatible APIs of the objects that consumers have bound from an
	// APIExport, in one or all spaces: /views/exports/SPACE/EXPORT/spaces/SPACE.
	Exports API = "/views/exports/"
	// Slices are the same for one slice of an APIExportView, or for the rest:
	// /views/slices/SPACE/VIEW/values/VALUE/spaces/SPACE,
	// /views/slices/SPACE/VIEW/rest/spaces/SPACE.
	Slices API = "/views/slices/"
	// Agents is the protocol between the hub and the agent of a location.
	Agents API = "/agent/v1/locations/"
	// Queries are queries about a space as a whole, which no object of it answers.
	Queries API = "/ask/v1/spaces/"
)

var apis = []API{Spaces, Views, ReportViews, Exports, Slices, Agents, Queries}

// The calls of an agent, below its root.
const (
	Desired      = "desired"
	Walk         = "walk"
	Fetch        = "fetch"
	LogIdentity  = "lineage"
	Namespaces   = "namespaces"
	AgentStatus  = "status"
	Renew        = "renew"
	Reports      = "reports"
	ReportsWalk  = "reports/walk"
	ReportsFetch = "reports/fetch"
	// Inspected is the response to the request in the parameter id.
	Inspected = "looked"
)

// The queries about a space, below its root.
const (
	Status  = "status"
	Why     = "why"
	Waiting = "waiting"
	// Render is the only query with a body: an object that is not stored.
	Render = "render"
	// Diff waits for the response of a location's agent.
	Diff = "diff"
	// Endpoints are the advertised URLs of the hub, which are the same for all spaces.
	Endpoints = "endpoints"
)

// Other paths of the hub, below the zero Root.
const (
	Healthz = "/healthz"
	Livez   = "/livez"
	Readyz  = "/readyz"
	Metrics = "/metrics"
	Version = "/version"
	// Profiles is the path of the profiles of a hub or an agent. Each profile is below it by its
	// name.
	Profiles = "/debug/pprof/"
	// Enrol is for agents that have a join token, but no credential yet.
	Enrol = "/agent/v1/enroll"
	// Backup returns a copy of the log, which contains all Secrets.
	Backup = "/admin/v1/backup"
	// Tokens are the tokens of users and programs, each below it by its ID.
	Tokens = "/admin/v1/tokens"
)

// Own reports whether a path is at or below a path that the hub uses.
func Own(path string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	return slices.Contains([]string{
		"spaces", "views", "agent", "ask", "admin", "debug", "metrics", "healthz", "livez", "readyz", "version", "api", "apis", "openapi",
	}, first)
}

// Root is the root of one API: that of a space or a location. The zero Root is the hub itself.
type Root struct {
	API API
	// Name is the name of the space or location as the client wrote it; it may not exist. For
	// ReportViews, Exports and Slices it is the rest of the root's path.
	Name string
}

// Token returns the token ID in a path of the hub; "" for the collection. It returns false for
// other paths.
func Token(path string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(path, Tokens)
	if !ok || rest == "" {
		return "", ok
	}
	id, ok = strings.CutPrefix(rest, "/")
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// Space returns the root of a space's API.
func Space(s key.Space) Root { return Root{Spaces, string(s)} }

// View returns the root of a location's view.
func View(l key.Location) Root { return Root{Views, string(l)} }

// Reported returns the root of the reports of a location, or key.AllLocations, about the objects of
// a space, or key.AllSpaces.
func Reported(s key.Space, l key.Location) Root {
	return Root{ReportViews, "spaces/" + string(s) + "/locations/" + string(l)}
}

// Reported returns the space and the location of a root of ReportViews; ok is false if its path
// does not have that form.
func (r Root) Reported() (s key.Space, l key.Location, ok bool) {
	segments := strings.Split(r.Name, "/")
	if r.API != ReportViews || len(segments) != reportedParts || segments[0] != "spaces" || segments[2] != "locations" || segments[1] == "" || segments[3] == "" {
		return "", "", false
	}
	return key.Space(segments[1]), key.Location(segments[3]), true
}

// reportedParts is the number of path segments in the name of a root of ReportViews.
const reportedParts = 4

// Agent returns the root of the API of a location's agent.
func Agent(l key.Location) Root { return Root{Agents, string(l)} }

// Question returns the root of the queries about a space.
func Question(s key.Space) Root { return Root{Queries, string(s)} }

// Parse splits a path into its root and the rest, without the slash between them. A path below no root
// is returned unchanged with the zero Root.
func Parse(path string) (root Root, rest string) {
	for _, api := range apis {
		if below, ok := strings.CutPrefix(path, string(api)); ok {
			name, rest := cut(below, api.segments(below))
			return Root{api, name}, rest
		}
	}
	return Root{}, path
}

// segments returns the number of path segments in the name of a root of the API.
func (a API) segments(below string) int {
	switch a {
	case ReportViews, Exports:
		return reportedParts
	case Slices:
		if segments := strings.SplitN(below, "/", reportedParts); len(segments) > 2 && segments[2] == "rest" {
			return restParts
		}
		return sliceParts
	}
	return 1
}

// cut splits a path after a number of segments, without the slash between.
func cut(path string, segments int) (name, rest string) {
	for i := range len(path) {
		if path[i] == '/' {
			if segments--; segments == 0 {
				return path[:i], path[i+1:]
			}
		}
	}
	return path, ""
}

// String returns the path of the root, without a slash at its end.
func (r Root) String() string { return string(r.API) + r.Name }

// Path returns a path below the root, escaped for use in a URL.
func (r Root) Path(below string) string {
	segments := strings.Split(r.Name, "/")
	if r.API.segments(r.Name) == 1 {
		segments = []string{r.Name}
	}
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return string(r.API) + strings.Join(segments, "/") + "/" + below
}

// Kubernetes reports whether the API below the root is a Kubernetes API.
func (r Root) Kubernetes() bool {
	return slices.Contains([]API{Spaces, Views, ReportViews, Exports, Slices}, r.API)
}
