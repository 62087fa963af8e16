package read

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// reader reads one kind through a lens. It is cheap, and made for each request.
type reader struct {
	server *Server
	lens   Lens
	kind   *kinds.Kind
	shape  *shape
	look   look
	// added is how many bytes the current definition has added to stored objects so far.
	added atomic.Int64
}

var _ interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.Getter
	rest.Lister
	rest.Watcher
} = &reader{}

// New is an empty object.
func (r *reader) New() runtime.Object {
	if r.look.metadataOnly {
		return &metav1.PartialObjectMetadata{}
	}
	return r.kind.New()
}

// NewList is an empty list.
func (r *reader) NewList() runtime.Object {
	if r.look.metadataOnly {
		return &metav1.PartialObjectMetadataList{}
	}
	return r.kind.NewList()
}

// Destroy has nothing to clean up.
func (r *reader) Destroy() {}

// NamespaceScoped says whether the kind is namespaced.
func (r *reader) NamespaceScoped() bool { return r.kind.Namespaced }

// GetSingularName is the singular name of the kind's resource.
func (r *reader) GetSingularName() string { return r.kind.Singular }

// query is the query of a request's path.
func (r *reader) query(ctx context.Context, name string) query {
	q := query{resource: r.kind.Resource, namespaced: r.kind.Namespaced, name: name, placing: r.look.placing}
	if q.namespaced {
		q.namespace = request.NamespaceValue(ctx)
	}
	if r.look.shelf {
		q.wide = r.look.wide
	}
	if r.look.reports { // what is reported of a kind that is stored as another one has its own name
		q.resource = key.NewResource(r.kind.GVR.Group, r.kind.GVR.Resource)
	}
	return q
}

// shown says whether a row is an object of the view that is selected. An object that can't
// be rendered for a location is not in its view: the location keeps what it has, and other
// objects are not affected.
func (r *reader) shown(row *table.Row, s selection) bool {
	if row == nil || !r.lens.holds(row) || r.look.reports && !r.inVersion(row) {
		return false
	}
	selectable := row
	if s.fields != nil {
		selectable = r.today(row)
	}
	if !r.selects(s, selectable) {
		return false
	}
	if r.look.at == "" {
		return true
	}
	_, err := r.digest(row)
	return err == nil
}

// object is a row as it is shown in a state of a revision.
func (r *reader) object(row *table.Row, rev int64) *object {
	if !r.look.listRevision {
		rev = row.ModRev
	}
	return &object{reader: r, row: r.complete(row), rev: rev}
}

// Get returns one object.
func (r *reader) Get(ctx context.Context, name string, opts *metav1.GetOptions) (runtime.Object, error) {
	if err := kinds.CheckName(name); err != nil {
		return nil, err
	}
	version := ""
	if opts != nil {
		version = opts.ResourceVersion
	}
	if err := r.server.await(ctx, version); err != nil {
		return nil, err
	}
	q := r.query(ctx, name)
	st := r.lens.now(r.server.config.Table, q)
	var found *object
	st.from("", func(row *table.Row) bool {
		if r.shown(row, selection{}) {
			found = r.object(row, st.rev)
		}
		return found == nil
	})
	if err := r.judgedAnew(st, "get"); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, apierrors.NewNotFound(r.kind.GVR.GroupResource(), name)
	}
	return found, nil
}

// List returns the objects that the options ask for, in the order of their
// places in the view. Objects that are read count toward DecodedListBytes with what
// the current definition adds to them, also those that are not selected. A list
// with a limit ends there, maybe without an object, and goes on with its token.
func (r *reader) List(ctx context.Context, opts *metainternalversion.ListOptions) (runtime.Object, error) {
	if opts == nil {
		opts = &metainternalversion.ListOptions{}
	}
	q, selected := r.query(ctx, "").selecting(opts)
	st, start, err := r.state(ctx, q, opts)
	if err != nil {
		return nil, err
	}
	l := &list{reader: r}
	l.ResourceVersion = strconv.FormatInt(st.rev, 10)
	next, more, isCut := "", int64(0), false
	r.added.Store(0)
	limit := int64(r.server.config.DecodedListBytes)
	st.from(start, func(row *table.Row) bool {
		if r.added.Load() > limit {
			isCut = opts.Limit > 0
			return false
		}
		before := r.added.Load()
		if !r.shown(row, selected) {
			if r.added.Load() > before { // it is of the view
				next = r.lens.place(row)
			}
			return true
		}
		if opts.Limit > 0 && int64(len(l.Items)) == opts.Limit {
			more++
			// Only lists without selectors say how many items remain.
			return selected.everything()
		}
		l.Items = append(l.Items, r.object(row, st.rev))
		next = r.lens.place(row)
		return true
	})
	if r.added.Load() > limit && opts.Limit <= 0 {
		return nil, tooLarge(totalSize(l.Items), int(limit))
	}
	if more == 0 && !isCut {
		return l, nil
	}
	if selected.everything() && !isCut {
		l.RemainingItemCount = &more
	}
	r.server.pages.put(keyOfPage(r.lens, q, st.rev), st, time.Now())
	l.Continue, err = continueAfter(next, st.rev)
	return l, err
}

// state is the state that a list is of, and the place where it begins.
func (r *reader) state(ctx context.Context, q query, opts *metainternalversion.ListOptions) (st state, start string, err error) {
	if opts.Continue != "" {
		return r.continued(ctx, q, opts)
	}
	if err := r.server.await(ctx, opts.ResourceVersion); err != nil {
		return state{}, "", err
	}
	if !exact(opts) {
		st = r.lens.now(r.server.config.Table, q)
		return st, "", r.judgedAnew(st, "list")
	}
	rev, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return state{}, "", err
	}
	st, ok := r.at(q, rev)
	if !ok {
		return state{}, "", apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return st, "", nil
}

// exact says that a list must be of the named revision and no later one, which is also the
// default for a list with a limit and a revision.
func exact(opts *metainternalversion.ListOptions) bool {
	if opts.ResourceVersionMatch != "" {
		return opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	}
	return opts.Limit > 0 && opts.ResourceVersion != "" && opts.ResourceVersion != "0"
}

const (
	// placeRoot precedes places in continue tokens; the library needs it.
	placeRoot = "/"
	// latest is the revision in a token that continues with the current state, as are all
	// below zero.
	latest = -1
)

func continueAfter(place string, rev int64) (string, error) {
	token, err := storage.EncodeContinue(placeRoot+place+"\x00", placeRoot, rev)
	if err != nil {
		return "", fmt.Errorf("continue after %q: %w", place, err)
	}
	return token, nil
}

// continued is the state of the list that a token belongs to.
func (r *reader) continued(ctx context.Context, q query, opts *metainternalversion.ListOptions) (st state, start string, err error) {
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return state{}, "", apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	start, rev, err := storage.DecodeContinue(opts.Continue, placeRoot)
	if err != nil {
		return state{}, "", apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
	}
	start = start[len(placeRoot):]
	if rev < 0 {
		if err := r.server.await(ctx, ""); err != nil {
			return state{}, "", err
		}
		st = r.lens.now(r.server.config.Table, q)
		return st, start, r.judgedAnew(st, "list")
	}
	if err := r.server.awaitRevision(ctx, rev); err != nil {
		return state{}, "", err
	}
	st, ok := r.at(q, rev)
	if !ok {
		return state{}, "", inconsistent(start)
	}
	return st, start, nil
}

// inconsistent says that the state of a list is gone, and has a token that continues at the
// same place in the current state.
func inconsistent(start string) error {
	expired := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve " +
		"the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that " +
		"were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.")
	token, err := storage.EncodeContinue(placeRoot+start, placeRoot, latest)
	if err != nil {
		return fmt.Errorf("continue at %q: %w", start, err)
	}
	expired.ErrStatus.Continue = token
	return expired
}

// at is the state of the current or a past revision; ok is false if that is gone, of another
// space or location of the name, or not to be read any more.
func (r *reader) at(q query, rev int64) (st state, ok bool) {
	if rev < r.lens.since(r.server.config.Table) || !r.stillAccepted(rev) {
		return state{}, false
	}
	if st, ok := r.server.pages.get(keyOfPage(r.lens, q, rev), time.Now()); ok {
		return st, true
	}
	st = r.lens.now(r.server.config.Table, q)
	if st.rev == rev {
		return st, true
	}
	return r.rewound(q, st, rev)
}

// complete is the row as it is shown: as its CRD reads now, and with what is computed.
func (r *reader) complete(row *table.Row) *table.Row {
	row = r.today(row)
	if row == nil || r.look.reports {
		return row
	}
	var value []byte
	if r.server.config.Complete != nil {
		value = r.server.config.Complete(row)
	}
	if r.look.foreign {
		if value == nil {
			value = row.Value
		}
		value = withoutOthers(value)
	}
	if value == nil {
		return row
	}
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}
