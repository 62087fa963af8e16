package agentapi

import (
	"net/http"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/logidentity"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxNamespacesBytes bounds the body of a request about Namespaces.
const maxNamespacesBytes = 64 << 10

// serveNamespaces answers which of some Namespaces are desired in the content of a whole location. An agent learns
// no more of other shards than these names, and it can list the Namespaces of its cluster.
func serveNamespaces(w http.ResponseWriter, r *http.Request, t *table.Table, log *logidentity.Identity, c content) {
	var request wire.NamespacesRequest
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: maxNamespacesBytes}, &request); err != nil {
		respond.Error(w, r, respond.BadBody(err, "namespaces"))
		return
	}
	if n := len(request.Names); n > wire.MaxNamespaces {
		respond.Error(w, r, respond.BadRequest("namespaces: %d names, the maximum is %d", n, wire.MaxNamespaces))
		return
	}
	var answer wire.NamespacesResponse
	answer.Marker, answer.Revision = log.Position(t.Rev()) // before the Namespaces, which may be newer
	answer.Desired = desiredNamespaces(t, c, request.Names)
	respond.JSON(w, answer)
}

// desiredNamespaces returns the Namespaces, of those with some names, that are part of a content and are not to be
// gone. A Namespace that is held counts: its desired labels are not known yet.
func desiredNamespaces(t *table.Table, c content, names []string) (desired []string) {
	wanted := map[string]bool{} // the lock is held for all Namespaces of the location
	for _, name := range names {
		wanted[name] = true
	}
	var rows []*table.Row
	t.AscendMembers(c.location, func(row *table.Row) (from string, more bool) {
		path, _ := key.PathOf(row.Key)
		space, _, _ := strings.Cut(path, "/")
		all := key.ResourcePrefix(key.Space(space), key.Namespaces)
		name, isNamespace := strings.CutPrefix(row.Key, all)
		switch {
		case isNamespace && wanted[name]:
			rows = append(rows, row)
		case !isNamespace && row.Key < all:
			return all, true
		case !isNamespace:
			return key.OfPath(space + "0"), true // "0" is the character after "/": the next space
		}
		return "", true
	})
	var e entry
	for _, row := range rows {
		o, err := key.ParseObject(row.Key)
		if err == nil && !slices.Contains(desired, o.Name) && c.read(row, &e) && !e.leaves && e.heldFor != v1alpha1.ReasonUpsynced {
			desired = append(desired, o.Name)
		}
	}
	slices.Sort(desired)
	return desired
}
