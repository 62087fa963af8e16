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

// ExportViewScope is the export view by which a request writes. Objects outside of the view do not
// exist for the request. It can't create, move or delete objects outside of the view, either.
type ExportViewScope struct {
	// ID identifies the APIExport or the APIExportView.
	ID key.ExportView
	// Space is the space whose objects are written, under their own names. With key.AllSpaces, the
	// wide name of an object contains its space.
	Space key.Space
	// Clustered are the cluster-scoped kinds whose names in owner references are wide, too, as they
	// are in reads.
	Clustered []schema.GroupKind
}

// ExportHandler returns the handler of one request for a kind in an export view. It uses the same
// storage as Handler. The transaction that writes an object verifies that the object is in the view.
// Config.Exports must be set. The caller checks the right to use the view.
func (s *Server) ExportHandler(kind *kinds.Kind, t ExportViewScope, info *request.RequestInfo) (http.HandlerFunc, error) {
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
	handle, err := r.through(&exportRequest{ExportViewScope: t, server: s, kind: kind, verb: info.Verb}).handler(info, s.admission())
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

// exportRequest is one request by an export view. Handlers use the names of the view, and storage
// those of the space.
type exportRequest struct {
	ExportViewScope
	server *Server
	kind   *kinds.Kind
	verb   string
}

// wide reports whether objects have wide names in the view.
func (w *exportRequest) wide() bool { return w.Space == key.AllSpaces }

func (w *exportRequest) names() key.Wide { return key.Wide{Spaces: w.wide()} }

// exportWrite is the part of a request that writes in one space. It is in the context of the write.
type exportWrite struct {
	*exportRequest
	space key.Space
	// in has the storage of the kind in the space.
	in *resource
	// called has the namespace and name in the view; name may be a prefix, for generateName.
	called struct{ namespace, name string }
	// namespace and name are those in the space.
	namespace, name string
}

// exportWriteFrom returns the exportWrite of a context, or nil for other requests.
func exportWriteFrom(ctx context.Context) *exportWrite {
	p, _ := ctx.Value(exportWriteKey).(*exportWrite)
	return p
}

// enter returns the exportWrite for the space of a name, and its context. Without a space of that
// name, it returns a not found error.
func (w *exportRequest) enter(ctx context.Context, name string) (context.Context, *exportWrite, error) {
	p := &exportWrite{exportRequest: w, space: w.Space}
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

// into returns the context of an exportWrite.
func (w *exportRequest) into(ctx context.Context, p *exportWrite) (context.Context, *exportWrite, error) {
	if err := w.admits(p, w.verb); err != nil {
		return nil, nil, err
	}
	ctx = context.WithValue(WithSpace(ctx, p.space), exportWriteKey, p)
	switch {
	case w.kind.Namespaced:
		ctx = request.WithNamespace(ctx, p.namespace)
	case request.NamespaceValue(ctx) != "": // the namespace of a Namespace is its name
		ctx = request.WithNamespace(ctx, p.name)
	}
	return ctx, p, nil
}

// admits returns an error unless a verb is allowed in a space. It also determines the storage of the
// kind there.
func (w *exportRequest) admits(p *exportWrite, verb string) error {
	e := w.server.config.Exports
	if !e.Bound(w.ID, p.space) {
		return w.notFound(p.called.name)
	}
	if !e.Allowed(w.ID, p.space, w.kind.Resource, verb) {
		if w.exported() {
			return w.notFound(p.called.name)
		}
		return apierrors.NewForbidden(w.kind.GVR.GroupResource(), p.called.name,
			fmt.Errorf("space %q has not accepted a claim of %s with verb %q", p.space, w.kind.GVR.GroupResource(), verb))
	}
	return w.findIn(p, verb)
}

// findIn determines the storage of the kind by the catalog of the space.
func (w *exportRequest) findIn(p *exportWrite, verb string) error {
	// Errors concern other kinds. An undefined kind is not found.
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

// undefined returns the error for a space whose kind has another version or scope than the view's. The
// space has bound an earlier definition. Its objects can't be written or deleted until the provider
// restores that definition.
func (w *exportRequest) undefined(p *exportWrite, catalog *kinds.Catalog) error {
	if kind, ok := catalog.ForStorage(w.kind.Resource); ok {
		if err := catalog.Waits(kind, "update"); err != nil {
			return err
		}
	}
	return w.notFound(p.called.name)
}

// exported reports whether the kind is exported, and not claimed.
func (w *exportRequest) exported() bool {
	all, _, _ := w.server.config.Exports.Resources(w.ID)
	for _, r := range all {
		if key.NewResource(r.Group, r.Resource) == w.kind.Resource {
			return true
		}
	}
	return false
}

// notFound returns the error for objects outside of the view, even if they exist.
func (w *exportRequest) notFound(name string) error {
	return apierrors.NewNotFound(w.kind.GVR.GroupResource(), name)
}
