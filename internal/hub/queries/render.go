package queries

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
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

// renderings renders objects for locations, stored ones and those that users send. It bounds the size and the
// time of a response, and stores nothing. It is safe for concurrent use.
type renderings struct {
	table    *table.Table
	renderer *render.Renderer
	rules    placement.RulesOf
}

// serve responds with Renderings.
func (q *renderings) serve(w http.ResponseWriter, r *http.Request, rights *rights) {
	o, err := key.ParseIn(rights.space, r.URL.Query().Get("object"))
	if err != nil {
		respond.Error(w, r, respond.BadRequest("%v", err))
		return
	}
	if err := rights.gets(o); err != nil {
		respond.Error(w, r, err)
		return
	}
	snapshot := q.table.Snapshot()
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
	ctx, cancel := context.WithTimeoutCause(r.Context(), maxRenderTime, errRenderTime)
	defer cancel()
	answer, err := q.render(ctx, snapshot, o, row, key.Location(r.URL.Query().Get("location")))
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

// maxRenderTime limits the time of a response, since each location may cost a rendering.
const maxRenderTime = 20 * time.Second

// errRenderTime is the cause of a context that ends after maxRenderTime.
var errRenderTime = errors.New("the time for renderings is over")

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
// the context ends. It fails before it renders anything if the renderings would be too large together.
func (q *renderings) render(ctx context.Context, state table.Reader, o key.Object, row *table.Row, only key.Location) (Renderings, error) {
	answer := Renderings{Object: o.Identity.String(), Renderings: []Rendering{}}
	locations, err := shownLocations(ctx, state, o.Space, only)
	if err != nil {
		return answer, err
	}
	class := placement.ClassesOf(state, o, row, q.rules)
	classes, distinct := make([]*placement.Class, len(locations)), map[*placement.Class]struct{}{}
	for i, location := range locations {
		if err := ctx.Err(); err != nil {
			return answer, renderError(ctx, o, 0, len(locations))
		}
		classes[i] = class(location)
		distinct[classes[i]] = struct{}{}
	}
	if only == "" && len(distinct)*len(row.Value) > maxRenderInputs {
		return answer, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"%s has %d bytes, and locations get it in up to %d ways: ask for one location at a time", o.Identity, len(row.Value), len(distinct)))
	}
	made, byClass := &sheet{all: answer.Renderings, indexes: map[gotten]int{}}, make(map[*placement.Class]gotten, len(distinct))
	for i, location := range locations {
		if ctx.Err() != nil {
			return answer, renderError(ctx, o, i, len(locations))
		}
		l := locationOf(location)
		what, ok := byClass[classes[i]]
		if !ok {
			what = q.gotten(row, placement.Place{Location: l, Class: classes[i]})
			byClass[classes[i]] = what
		}
		what = what.placed(placement.PlacingOf(location), o)
		_, _, assigned := placeOf(row, l)
		if err := made.add(what, l, assigned); err != nil {
			return answer, err
		}
	}
	answer.Renderings = made.all
	return answer, nil
}

// maxRenderInputs limits the size of the object times the number of its renderings, in bytes. A rendering is rarely
// larger than its object.
const maxRenderInputs = 2 * maxRendered

// renderError returns the error of a context that ended after the renderings for some locations.
func renderError(ctx context.Context, o key.Object, done, all int) error {
	if !errors.Is(context.Cause(ctx), errRenderTime) {
		return ctx.Err()
	}
	return apierrors.NewTimeoutError(fmt.Sprintf(
		"%s is rendered for %d of %d locations after %s: ask for one location at a time", o.Identity, done, all, maxRenderTime), 0)
}

// shownLocations returns the rows of the Locations that a space may see, or the only one.
func shownLocations(ctx context.Context, state table.Reader, s key.Space, only key.Location) (all []*table.Row, err error) {
	if only != "" {
		location := state.Get(only.Key())
		if location == nil || !placement.Shown(location, s) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(only))
		}
		return []*table.Row{location}, nil
	}
	state.Ascend(key.ResourcePrefix(key.Root, key.Locations), func(location *table.Row) bool {
		if placement.Shown(location, s) {
			all = append(all, location)
		}
		return ctx.Err() == nil
	})
	return all, ctx.Err()
}

// locationOf returns the name of a Location.
func locationOf(row *table.Row) key.Location {
	return key.Location(strings.TrimPrefix(row.Key, key.ResourcePrefix(key.Root, key.Locations)))
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

// gotten returns the result for one location, or the reason why it keeps its present object. It renders at most once,
// and leaves the cache to what locations get.
func (q *renderings) gotten(row *table.Row, p placement.Place) gotten {
	var made render.Rendered
	d := objectstate.DesiredOf(func(e *table.Entry, class *placement.Class) (sum wire.Sum, err error) {
		made, err = q.renderer.Once(e, class)
		return made.Digest, err
	}, row, p)
	if d.Held != "" {
		return gotten{Reason: d.HeldFor, Message: d.Held}
	}
	return gotten{Content: string(made.Object), Digest: made.Digest.String()}
}
