// Package route has the paths that the hub serves, once for the hub, agents and the
// command line.
//
// It must never know what is behind a path, nor who may ask for it.
package route

import (
	"net/url"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
)

// API is a kind of root: below it everything is about one space, or one location, or both.
type API string

const (
	// Spaces are Kubernetes-compatible APIs, one for each space: /spaces/NAME.
	Spaces API = "/spaces/"
	// Views are Kubernetes-compatible APIs to read what is desired at a location.
	Views API = "/views/locations/"
	// ReportViews are Kubernetes-compatible APIs to read what locations report, of one space or
	// all, by one location or all: /views/reports/spaces/SPACE/locations/LOCATION.
	ReportViews API = "/views/reports/"
	// Exports are Kubernetes-compatible APIs of what consumers have bound of an APIExport, in one
	// space or all: /views/exports/SPACE/EXPORT/spaces/SPACE.
	Exports API = "/views/exports/"
	// Slices are the same of one slice of an APIExportView, or of what is in none:
	// /views/slices/SPACE/VIEW/values/VALUE/spaces/SPACE, /views/slices/SPACE/VIEW/rest/spaces/SPACE.
	Slices API = "/views/slices/"
	// Agents is the protocol between the hub and the agent of a location.
	Agents API = "/agent/v1/locations/"
	// Questions are about a space as a whole; no object of it answers them.
	Questions API = "/ask/v1/spaces/"
)

var apis = []API{Spaces, Views, ReportViews, Exports, Slices, Agents, Questions}

// The calls of an agent, below its root.
const (
	Desired      = "desired"
	Walk         = "walk"
	Fetch        = "fetch"
	Lineage      = "lineage"
	AgentStatus  = "status"
	Renew        = "renew"
	Reports      = "reports"
	ReportsWalk  = "reports/walk"
	ReportsFetch = "reports/fetch"
	// Looked answers the question that its parameter id names.
	Looked = "looked"
)

// The questions about a space, below its root.
const (
	Status  = "status"
	Why     = "why"
	Waiting = "waiting"
	// Render is the only one that has a body: an object that is not stored.
	Render = "render"
	// Diff waits for the answer of a location's agent.
	Diff = "diff"
	// Endpoints are the URLs under which the hub is reached, which are the same for all
	// spaces.
	Endpoints = "endpoints"
)

// What the hub serves besides: paths below the zero Root.
const (
	Healthz = "/healthz"
	Livez   = "/livez"
	Readyz  = "/readyz"
	Metrics = "/metrics"
	Version = "/version"
	// Profiles is where those of the hub's process are, and of an agent's, each below it by
	// its name.
	Profiles = "/debug/pprof/"
	// Enrol is for agents that have a join token, and no credential yet.
	Enrol = "/agent/v1/enroll"
	// Backup is a copy of the log. It has all Secrets.
	Backup = "/admin/v1/backup"
	// Tokens are the tokens of people and programs; each is below it, by its ID.
	Tokens = "/admin/v1/tokens"
)

// Own says whether a path is at or below one that begins as those that the hub serves do.
func Own(path string) bool {
	first, _, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	return slices.Contains([]string{
		"spaces", "views", "agent", "ask", "admin", "debug", "metrics", "healthz", "livez", "readyz", "version", "api", "apis", "openapi",
	}, first)
}

// Root is one API: that of a space or a location. The zero Root is the hub itself.
type Root struct {
	API API
	// Name is the name of the space or location as the client wrote it; there may be
	// none of that name. For ReportViews, Exports and Slices it is all that follows in the
	// path of the root.
	Name string
}

// Token is the ID of the token that a path of the hub is about; "" if it is about them all.
// It returns false for other paths.
func Token(path string) (id string, ok bool) {
	rest, ok := strings.CutPrefix(path, Tokens)
	if !ok || rest == "" {
		return "", ok
	}
	id, ok = strings.CutPrefix(rest, "/")
	return id, ok && id != "" && !strings.Contains(id, "/")
}

// Space is the root of a space's API.
func Space(s key.Space) Root { return Root{Spaces, string(s)} }

// View is the root of a location's view.
func View(l key.Location) Root { return Root{Views, string(l)} }

// Reported is the root of what a location, or key.AllLocations, reports about the objects of
// a space, or key.AllSpaces.
func Reported(s key.Space, l key.Location) Root {
	return Root{ReportViews, "spaces/" + string(s) + "/locations/" + string(l)}
}

// Reported are the space and the location of a root of ReportViews; ok is false if its path does
// not have the form.
func (r Root) Reported() (s key.Space, l key.Location, ok bool) {
	parts := strings.Split(r.Name, "/")
	if r.API != ReportViews || len(parts) != reportedParts || parts[0] != "spaces" || parts[2] != "locations" || parts[1] == "" || parts[3] == "" {
		return "", "", false
	}
	return key.Space(parts[1]), key.Location(parts[3]), true
}

// reportedParts is how many parts of a path the name of a root of ReportViews has.
const reportedParts = 4

// Agent is the root of a location's agent.
func Agent(l key.Location) Root { return Root{Agents, string(l)} }

// Question is the root of what is asked about a space.
func Question(s key.Space) Root { return Root{Questions, string(s)} }

// Of splits a path into the root that it is below and the rest, without the slash
// between them. A path below no root is returned unchanged with the zero Root.
func Of(path string) (root Root, rest string) {
	for _, api := range apis {
		if below, ok := strings.CutPrefix(path, string(api)); ok {
			name, rest := cut(below, api.parts(below))
			return Root{api, name}, rest
		}
	}
	return Root{}, path
}

// parts is how many parts of a path the name of a root of the API has.
func (a API) parts(below string) int {
	switch a {
	case ReportViews, Exports:
		return reportedParts
	case Slices:
		if parts := strings.SplitN(below, "/", reportedParts); len(parts) > 2 && parts[2] == "rest" {
			return restParts
		}
		return sliceParts
	}
	return 1
}

// cut splits a path behind so many parts, without the slash between.
func cut(path string, parts int) (name, rest string) {
	for i := range len(path) {
		if path[i] == '/' {
			if parts--; parts == 0 {
				return path[:i], path[i+1:]
			}
		}
	}
	return path, ""
}

// String is the path of the root, without a slash at its end.
func (r Root) String() string { return string(r.API) + r.Name }

// Path is that of something below the root, escaped for use in a URL.
func (r Root) Path(below string) string {
	parts := strings.Split(r.Name, "/")
	if r.API.parts(r.Name) == 1 {
		parts = []string{r.Name}
	}
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return string(r.API) + strings.Join(parts, "/") + "/" + below
}

// Kubernetes says that the API below the root is one of Kubernetes.
func (r Root) Kubernetes() bool {
	return slices.Contains([]API{Spaces, Views, ReportViews, Exports, Slices}, r.API)
}
