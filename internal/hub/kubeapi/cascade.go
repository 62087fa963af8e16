package kubeapi

import (
	"context"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// sessionHeader contains an ID that all requests of one run of kubectl share.
	sessionHeader = "Kubectl-Session"
	// maxSession is the maximum length of a session ID in bytes; kubectl sends a UUID.
	maxSession = 64

	// maxCascaded is the largest number of objects that the hub remembers of one Namespace.
	maxCascaded = 1000
	// maxSearched is the largest number of objects of a space that the hub searches for those in a
	// Namespace.
	maxSearched = 200_000
)

// cascades remembers which objects the deletion of a Namespace has deleted, for the run of kubectl that
// requested it.
//
// A manifest may contain a Namespace and objects in it, and kubectl delete -k deletes the Namespace first.
// In a cluster, the objects are deleted some seconds later, so that kubectl still finds them. A space is
// faster, and kubectl would fail because it does not find them. So the hub confirms their deletion.
//
// It is safe for concurrent use.
type cascades struct {
	memory *cascadeMemory
	// committed waits until the table contains all writes that were acknowledged before the call.
	committed func(context.Context) error
}

func newCascades(committed func(context.Context) error) cascades {
	return cascades{newCascadeMemory(), committed}
}

// wrap returns a handler for the deletion of an object that remembers and confirms cascading deletions.
// It returns the handlers of other requests unchanged.
func (c cascades) wrap(handler http.HandlerFunc, r *http.Request, state *table.Table, space key.Space, kind *kinds.Kind, info *request.RequestInfo) http.HandlerFunc {
	session := r.Header.Get(sessionHeader)
	user, hasUser := request.UserFrom(r.Context())
	if info.Verb != "delete" || info.Subresource != "" || !hasUser || session == "" || len(session) > maxSession {
		return handler
	}
	id := cascade{user.GetName(), session, info.Namespace, space}
	if kind.Resource == key.Namespaces {
		id.namespace = info.Name
		return c.remember(r.Context(), id, state, handler)
	}
	if objects := c.memory.get(id, time.Now()); objects != nil {
		return confirm(objects, kind, info, handler)
	}
	return handler
}

// remember returns a handler that remembers the objects of a Namespace if the request begins its deletion.
// It does so before the client has the response: its next request may follow at once.
func (c cascades) remember(ctx context.Context, id cascade, state *table.Table, handler http.HandlerFunc) http.HandlerFunc {
	before := state.Snapshot()
	name := key.Object{Space: id.space, Identity: key.Identity{Resource: key.Namespaces, Name: id.namespace}}.Key()
	old := before.Get(name)
	if old == nil || old.Meta.Deleting {
		return handler
	}
	remember := func(code int) {
		if code != http.StatusOK && code != http.StatusAccepted || c.committed(ctx) != nil {
			return
		}
		now := state.Snapshot().Get(name)
		if now != nil && now.Meta.UID == old.Meta.UID && !now.Meta.Deleting {
			return // a dry run
		}
		c.memory.add(id, objectsIn(ctx, before, id.space, id.namespace), time.Now())
	}
	return func(w http.ResponseWriter, r *http.Request) {
		decide := func(code int) (isHeld bool) {
			remember(code)
			return false
		}
		handler(&statusRecorder{ResponseWriter: w, decide: decide}, r)
	}
}

// objectsIn returns objects in a namespace: all, unless a limit is exceeded or the context ends.
func objectsIn(ctx context.Context, state *table.Snapshot, space key.Space, namespace string) cascadedObjects {
	objects, searched := cascadedObjects{}, 0
	state.Ascend(key.SpacePrefix(space), func(row *table.Row) bool {
		searched++
		if o, err := key.ParseObject(row.Key); err == nil && o.Namespace == namespace {
			objects[o.Identity] = types.UID(row.Meta.UID)
		}
		return len(objects) < maxCascaded && searched < maxSearched && ctx.Err() == nil
	})
	return objects
}

// confirm returns a handler for the deletion of an object whose Namespace was deleted. If the object is
// gone by now, the handler reports that it was deleted.
func confirm(objects cascadedObjects, kind *kinds.Kind, info *request.RequestInfo, handler http.HandlerFunc) http.HandlerFunc {
	uid, ok := objects[key.Identity{Resource: kind.Resource, Namespace: info.Namespace, Name: info.Name}]
	if !ok {
		return handler
	}
	return func(w http.ResponseWriter, r *http.Request) {
		recorder := &statusRecorder{ResponseWriter: w, decide: func(code int) (isHeld bool) { return code == http.StatusNotFound }}
		handler(recorder, r)
		if !recorder.isHeld {
			return
		}
		w.Header().Del("Content-Length")
		respond.JSON(w, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusSuccess,
			Details:  &metav1.StatusDetails{Group: kind.GVR.Group, Kind: kind.GVR.Resource, Name: info.Name, UID: uid},
		})
	}
}

// statusRecorder passes a response on, unless it is held back for its status code.
type statusRecorder struct {
	http.ResponseWriter

	// decide is called with the status code before anything is sent. It returns true to hold the response back.
	decide          func(code int) (isHeld bool)
	hasCode, isHeld bool
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(code int) {
	if !r.hasCode {
		r.hasCode, r.isHeld = true, r.decide(code)
	}
	if !r.isHeld {
		r.ResponseWriter.WriteHeader(code)
	}
}

// Write implements http.ResponseWriter.
func (r *statusRecorder) Write(b []byte) (int, error) {
	if !r.hasCode {
		r.WriteHeader(http.StatusOK)
	}
	if r.isHeld {
		return len(b), nil
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
