// Package route is the vocabulary of what the hub serves: one path for each API,
// said once for the hub, for agents and for the command line.
//
// It must never know what is behind a path, nor who may ask for it.
package route

import (
	"net/url"
	"strings"

	"orrery.dev/orrery/internal/key"
)

// API is a kind of root: below it everything is about one space, or one location.
type API string

const (
	// Spaces are Kubernetes-compatible APIs, one for each space: /spaces/NAME.
	Spaces API = "/spaces/"
	// Views are Kubernetes-compatible APIs to read what a location is to have.
	Views API = "/views/locations/"
	// Agents is the protocol between the hub and the agent of a location.
	Agents API = "/agent/v1/locations/"
	// Questions are about a space, and no object answers them.
	Questions API = "/ask/v1/spaces/"
)

var apis = []API{Spaces, Views, Agents, Questions}

// What an agent calls below its root.
const (
	Desired      = "desired"
	Walk         = "walk"
	Fetch        = "fetch"
	Lineage      = "lineage"
	AgentStatus  = "status"
	Reports      = "reports"
	ReportsWalk  = "reports/walk"
	ReportsFetch = "reports/fetch"
)

// What is asked of a space below its root of questions.
const (
	Status  = "status"
	Why     = "why"
	Waiting = "waiting"
)

// What is served of the hub as a whole.
const (
	Healthz = "/healthz"
	Livez   = "/livez"
	Readyz  = "/readyz"
	Metrics = "/metrics"
	Version = "/version"
	// Backup is a copy of the log. It has all Secrets.
	Backup = "/admin/v1/backup"
)

// Root is one API: that of a space or a location. The zero Root is the hub itself.
type Root struct {
	API API
	// Name is that of the space or location. It is as a client wrote it: there may
	// be none of that name.
	Name string
}

// Space is the root of a space's API.
func Space(s key.Space) Root { return Root{Spaces, string(s)} }

// View is the root of what a location is to have.
func View(l key.Location) Root { return Root{Views, string(l)} }

// Agent is the root of a location's agent.
func Agent(l key.Location) Root { return Root{Agents, string(l)} }

// Question is the root of what is asked about a space.
func Question(s key.Space) Root { return Root{Questions, string(s)} }

// Of takes apart a path: the root that it is below of, and the rest without the
// slash before it. A path below none is the rest of the zero Root, as it is.
func Of(path string) (root Root, rest string) {
	for _, api := range apis {
		if below, ok := strings.CutPrefix(path, string(api)); ok {
			name, rest, _ := strings.Cut(below, "/")
			return Root{api, name}, rest
		}
	}
	return Root{}, path
}

// String is the path of the root, without a slash at its end.
func (r Root) String() string { return string(r.API) + r.Name }

// Path is that of something below the root, escaped for use in a URL.
func (r Root) Path(below string) string {
	return string(r.API) + url.PathEscape(r.Name) + "/" + below
}

// Kubernetes says that the API below the root is one of Kubernetes.
func (r Root) Kubernetes() bool { return r.API == Spaces || r.API == Views }
