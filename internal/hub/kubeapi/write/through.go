package write

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
)

// Through says by way of which shelf a request writes: what is not on it does not exist for
// the request, and nothing is made, moved or taken away by it that is or would be elsewhere.
type Through struct {
	Shelf key.Shelf
	// Space is the only one whose objects are written, as they are called there. With
	// key.AllSpaces the request says itself which, by wide names.
	Space key.Space
	// Clustered are the kinds in no namespace whose names, in references to owners, are wide,
	// too, as they are when the objects are read.
	Clustered []schema.GroupKind
}

// ThroughHandler handles one request for a kind on a shelf as Handler does in a space, by
// the same storage: each object is judged by the shelf in the transaction that writes it.
// The server must have Exports. Whether the requester may use the shelf is decided before.
func (s *Server) ThroughHandler(kind *kinds.Kind, t Through, info *request.RequestInfo) (http.HandlerFunc, error) {
	if s.config.Exports == nil {
		return nil, apierrors.NewInternalError(errors.New("nothing is exported"))
	}
	if err := s.config.checkRequest(kind, t.Space, info); err != nil {
		return nil, err
	}
	r, err := s.resourceOf(kind)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	handle, err := r.through(&way{Through: t, server: s, kind: kind, verb: info.Verb}).handler(info, s.admission())
	if err != nil {
		return nil, err
	}
	limit := r.scopes[""].MaxRequestBodyBytes
	return func(w http.ResponseWriter, req *http.Request) {
		err := requestbody.Object(req, limit)
		if err == nil && t.Space == key.AllSpaces {
			err = plainApply(req, limit)
		}
		if err != nil {
			respond.Error(w, req, err)
			return
		}
		handle(w, req)
	}, nil
}

// way is the way of one request through a shelf. Handlers know objects as the client does,
// storage as they are in their space.
type way struct {
	Through
	server *Server
	kind   *kinds.Kind
	verb   string
}

// wide says whether clients call objects by wide names.
func (w *way) wide() bool { return w.Space == key.AllSpaces }

func (w *way) names() key.Wide { return key.Wide{Spaces: w.wide()} }

// passage is what of a request is about one space. It is in the context of what writes there.
type passage struct {
	*way
	space key.Space
	// in is how the kind is written in the space.
	in *resource
	// called is how the client called the object: its namespace and name, or what its name
	// begins with.
	called struct{ namespace, name string }
	// namespace and name are those in the space.
	namespace, name string
}

// passageFrom is the passage of what writes with a context; nil if it is not by a shelf.
func passageFrom(ctx context.Context) *passage {
	p, _ := ctx.Value(passageKey).(*passage)
	return p
}

// enter finds the space that a name is in, empty if there is none in the request, and
// readies the context of what is done there.
func (w *way) enter(ctx context.Context, name string) (context.Context, *passage, error) {
	p := &passage{way: w, space: w.Space}
	p.called.namespace, p.called.name = request.NamespaceValue(ctx), name
	if !w.kind.Namespaced {
		p.called.namespace = ""
	}
	c, ok := w.names().Split(w.kind.Namespaced, p.called.namespace, name)
	if w.wide() {
		p.space = c.Space
	}
	p.namespace, p.name = c.Namespace, c.Name
	if !ok || key.ValidateName(string(p.space)) != nil {
		return nil, nil, w.notFound(cmp.Or(name, p.called.namespace))
	}
	return w.into(ctx, p)
}

// into readies the context of what a passage does.
func (w *way) into(ctx context.Context, p *passage) (context.Context, *passage, error) {
	if err := w.admits(p, w.verb); err != nil {
		return nil, nil, err
	}
	ctx = context.WithValue(WithSpace(ctx, p.space), passageKey, p)
	switch {
	case w.kind.Namespaced:
		ctx = request.WithNamespace(ctx, p.namespace)
	case request.NamespaceValue(ctx) != "": // that of a Namespace is its name
		ctx = request.WithNamespace(ctx, p.name)
	}
	return ctx, p, nil
}

// admits says why nothing is done with a verb in a space: nil if it may be. It finds how the
// kind is written there.
func (w *way) admits(p *passage, verb string) error {
	e := w.server.config.Exports
	if !e.Bound(w.Shelf, p.space) {
		return w.notFound(p.called.name)
	}
	if !e.Allowed(w.Shelf, p.space, w.kind.Resource, verb) {
		if w.exported() {
			return w.notFound(p.called.name)
		}
		return apierrors.NewForbidden(w.kind.GVR.GroupResource(), p.called.name,
			fmt.Errorf("space %q has not accepted a claim of %s to %s them", p.space, w.kind.GVR.GroupResource(), verb))
	}
	return w.findIn(p, verb)
}

// findIn finds how the kind is written in the space of a passage: by the space's own catalog.
func (w *way) findIn(p *passage, verb string) error {
	// An error is about another kind; what is not defined is not found.
	catalog, _ := w.server.config.Kinds.Catalog(p.space, w.server.config.Table.Snapshot())
	kind, ok := catalog.Lookup(w.kind.GVR)
	if !ok || kind.Namespaced != w.kind.Namespaced {
		return w.undefined(p, catalog)
	}
	if err := catalog.Waits(kind, verb); err != nil {
		return err
	}
	if access := catalog.Access(kind); !access.Allows(verb) && access != kinds.Terminating {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s of space %q can't be written now", w.kind.GVR.GroupResource(), p.space))
	}
	r, err := w.server.resourceOf(kind)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	p.in = r
	return nil
}

// undefined is why the space of a passage does not have the kind as the shelf has it: what it has
// bound otherwise can't be written, nor deleted by a path of that other scope or version, until
// the provider defines it again as it was.
func (w *way) undefined(p *passage, catalog *kinds.Catalog) error {
	if kind, ok := catalog.ForStorage(w.kind.Resource); ok {
		if err := catalog.Waits(kind, "update"); err != nil {
			return err
		}
	}
	return w.notFound(p.called.name)
}

// exported says that the kind is exported, and not claimed.
func (w *way) exported() bool {
	all, _, _ := w.server.config.Exports.Resources(w.Shelf)
	for _, r := range all {
		if key.NewResource(r.Group, r.Resource) == w.kind.Resource {
			return true
		}
	}
	return false
}

// notFound is the answer where there is nothing for the requester, whatever there is.
func (w *way) notFound(name string) error {
	return apierrors.NewNotFound(w.kind.GVR.GroupResource(), name)
}
