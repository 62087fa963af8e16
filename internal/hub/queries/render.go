package queries

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// Renderings is the response to GET and POST /ask/v1/spaces/NAME/render?object=PATH&location=L: the
// renderings of a stored object, or of the object in the body. Without a location it includes all
// locations that the space may see. Locations with the same result share a Rendering.
type Renderings struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object     string      `json:"object"`
	Renderings []Rendering `json:"renderings"`
}

// Rendering is the result for some locations.
type Rendering struct {
	Locations []key.Location `json:"locations"`
	// Assigned are the locations that the object is assigned to.
	Assigned []key.Location `json:"assigned,omitempty"`
	gotten
}

// gotten is the result for one location.
type gotten struct {
	// Content is the object as the hub sends it, in canonical JSON, and Digest its digest.
	Content string `json:"content,omitempty"`
	Digest  string `json:"digest,omitempty"`
	// Namespace is the namespace of the object in the clusters, if it differs from the one in the
	// space. Agents place the object there.
	Namespace string `json:"namespace,omitempty"`
	// Reason and Message explain why there is no rendering: locations keep their present object.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// maxObject is the maximum size of a request body.
const maxObject = 3 << 20

// serveRender responds with Renderings.
func (q *Server) serveRender(w http.ResponseWriter, r *http.Request, rights *rights) {
	o, err := key.ParseIn(rights.space, r.URL.Query().Get("object"))
	if err != nil {
		respond.Error(w, r, respond.BadRequest("%v", err))
		return
	}
	if err := rights.gets(o); err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := q.config.Table.Snapshot()
	row := snapshot.Get(o.Key())
	if r.Method == http.MethodPost {
		if err := rights.writes(o); err != nil {
			respond.Error(w, r, err)
			return
		}
		if row, err = rowOf(r, o); err != nil {
			respond.Error(w, r, err)
			return
		}
	}
	if row == nil {
		respond.Error(w, r, apierrors.NewNotFound(schema.GroupResource{Group: o.APIGroup(), Resource: o.Resource.Resource}, o.Name))
		return
	}
	answer, err := q.render(r.Context(), snapshot, o, row, key.Location(r.URL.Query().Get("location")))
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.JSON(w, answer)
}

// rowOf returns the row that the object in a request would have.
func rowOf(r *http.Request, o key.Object) (*table.Row, error) {
	value, err := requestbody.Read(r, requestbody.Limits{Bytes: maxObject})
	if err != nil {
		return nil, respond.BadBody(err, "read the object %s", o.Identity)
	}
	if !gjson.ValidBytes(value) {
		return nil, respond.BadRequest("the body is no JSON: send the object %s", o.Identity)
	}
	metadata := gjson.GetBytes(value, "metadata")
	if metadata.Get("name").String() != o.Name || metadata.Get("namespace").String() != o.Namespace {
		return nil, respond.BadRequest("the object in the request is not %s", o.Identity)
	}
	return &table.Row{Entry: table.NewEntry(o.Key(), value, 0, 0)}, nil
}

// maxRendered is the maximum total size of the renderings in a response, in bytes. If each location
// gets a different object, there are as many renderings as locations.
const maxRendered = 32 << 20

// sheet collects renderings; locations with the same result share one.
type sheet struct {
	all     []Rendering
	indexes map[gotten]int
	size    int
}

// add adds the result for a location. It fails if the total is too large.
func (s *sheet) add(what gotten, l key.Location, assigned bool) error {
	i, ok := s.indexes[what]
	if !ok {
		if s.size += len(what.Content) + len(what.Message); s.size > maxRendered {
			return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
				"locations get the object in so many ways that these have more than %d bytes together: ask for one location at a time", maxRendered))
		}
		i = len(s.all)
		s.indexes[what], s.all = i, append(s.all, Rendering{gotten: what})
	}
	into := &s.all[i]
	into.Locations = append(into.Locations, l)
	if assigned {
		into.Assigned = append(into.Assigned, l)
	}
	return nil
}

// render renders a row for one location, or for all that its space may see if none is given, until
// the context ends.
func (q *Server) render(ctx context.Context, state table.Reader, o key.Object, row *table.Row, only key.Location) (Renderings, error) {
	answer := Renderings{Object: o.Identity.String(), Renderings: []Rendering{}}
	class := placement.ClassesOf(state, o, row, q.config.Rules)
	made := &sheet{all: answer.Renderings, indexes: map[gotten]int{}}
	add := func(location *table.Row, l key.Location) error {
		what := q.gotten(row, placement.Place{Location: l, Class: class(location)}).placed(placement.PlacingOf(location), o)
		_, _, assigned := placeOf(row, l)
		return made.add(what, l, assigned)
	}
	if only != "" {
		location := state.Get(only.Key())
		if location == nil || !placement.Shown(location, o.Space) {
			return answer, apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(only))
		}
		err := add(location, only)
		answer.Renderings = made.all
		return answer, err
	}
	var err error
	prefix := key.ResourcePrefix(key.Root, key.Locations)
	state.Ascend(prefix, func(location *table.Row) bool {
		if placement.Shown(location, o.Space) {
			err = add(location, key.Location(location.Key[len(prefix):]))
		}
		err = cmp.Or(err, ctx.Err())
		return err == nil
	})
	answer.Renderings = made.all
	return answer, err
}

// placed returns the result in the namespace that a location uses.
func (g gotten) placed(p key.Placing, o key.Object) gotten {
	located := p.Locate(o)
	switch {
	case !p.Admits(o.Resource, o.Namespace):
		v := objectstate.Refused(v1alpha1.ReasonClusterScoped)
		return gotten{Reason: v.Reason, Message: v.Message}
	case located.Moved == "" || g.Reason != "":
	case located.Namespace != "":
		g.Namespace = located.Namespace
	default:
		g.Namespace = located.Name
	}
	return g
}

// gotten returns the result for one location, or the reason why it keeps its present object.
func (q *Server) gotten(row *table.Row, p placement.Place) gotten {
	d := objectstate.DesiredOf(q.config.Renderer.Digest, row, p)
	if d.Held != "" {
		return gotten{Reason: d.HeldFor, Message: d.Held}
	}
	made, err := q.config.Renderer.Render(row.Entry, p.Class)
	if err != nil { // its digest would have had the error
		return gotten{Reason: v1alpha1.ReasonNotRendered, Message: err.Error()}
	}
	return gotten{Content: string(made.Object), Digest: made.Digest.String()}
}
