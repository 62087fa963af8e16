package read

import (
	"context"
	"fmt"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// reader serves the get, list and watch requests for one kind through a lens. All responses of a request
// are of the same view. Each request has its own reader.
type reader struct {
	config  *Config
	waiter  *revisionWaiter
	pages   *pages
	watches *watches

	view    *view
	history *history
	format  *format
	*tableConvertor
}

var _ interface {
	rest.Storage
	rest.Scoper
	rest.SingularNameProvider
	rest.Getter
	rest.Lister
	rest.Watcher
} = &reader{}

// New returns an empty object.
func (r *reader) New() runtime.Object { return r.view.newObject() }

// NewList returns an empty list.
func (r *reader) NewList() runtime.Object { return r.view.newList() }

// Destroy implements rest.Storage.
func (r *reader) Destroy() {}

// NamespaceScoped reports whether the kind is namespaced.
func (r *reader) NamespaceScoped() bool { return r.view.kind.Namespaced }

// GetSingularName returns the singular name of the kind's resource.
func (r *reader) GetSingularName() string { return r.view.kind.Singular }

// Get returns one object.
func (r *reader) Get(ctx context.Context, name string, opts *metav1.GetOptions) (runtime.Object, error) {
	if err := kinds.CheckName(name); err != nil {
		return nil, err
	}
	version := ""
	if opts != nil {
		version = opts.ResourceVersion
	}
	if err := r.waiter.await(ctx, version); err != nil {
		return nil, err
	}
	q := r.view.query(ctx, name)
	st := r.view.lens.now(r.config.Table, q)
	var found *object
	st.from("", func(row *table.Row) bool {
		if r.view.shown(row, selection{}) {
			found = r.format.object(row, st.rev)
		}
		return found == nil
	})
	if err := r.view.acceptanceError(st, "get"); err != nil {
		return nil, err
	}
	if found == nil {
		return nil, apierrors.NewNotFound(r.view.kind.GVR.GroupResource(), name)
	}
	return found, nil
}

// List returns the objects that the options select, in the order of their places. All objects that
// are read count toward DecodedListBytes with the bytes that conversion adds to them, even if they
// are not selected. At this limit, a list with a page limit ends early, possibly without an
// object, and returns a continue token; other lists fail.
func (r *reader) List(ctx context.Context, opts *metainternalversion.ListOptions) (runtime.Object, error) {
	if opts == nil {
		opts = &metainternalversion.ListOptions{}
	}
	q, selected := r.view.query(ctx, "").selecting(opts)
	st, start, err := r.state(ctx, q, opts)
	if err != nil {
		return nil, err
	}
	l := &list{format: r.format}
	l.ResourceVersion = strconv.FormatInt(st.rev, 10)
	next, more, isCut := "", int64(0), false
	r.view.added.Store(0)
	limit := int64(r.config.DecodedListBytes)
	st.from(start, func(row *table.Row) bool {
		if r.view.added.Load() > limit {
			isCut = opts.Limit > 0
			return false
		}
		before := r.view.added.Load()
		if !r.view.shown(row, selected) {
			if r.view.added.Load() > before { // the row is in the view
				next = r.view.lens.place(row)
			}
			return true
		}
		if opts.Limit > 0 && int64(len(l.Items)) == opts.Limit {
			more++
			// Only lists without selectors return the number of remaining items.
			return selected.everything()
		}
		l.Items = append(l.Items, r.format.object(row, st.rev))
		next = r.view.lens.place(row)
		return true
	})
	if r.view.added.Load() > limit && opts.Limit <= 0 {
		return nil, tooLarge(totalSize(l.Items), int(limit))
	}
	if more == 0 && !isCut {
		return l, nil
	}
	if selected.everything() && !isCut {
		l.RemainingItemCount = &more
	}
	r.pages.put(keyOfPage(r.view.lens, q, st.rev), st, time.Now())
	l.Continue, err = continueAfter(next, st.rev)
	return l, err
}

// state returns the state for a list, and the place at which it starts.
func (r *reader) state(ctx context.Context, q query, opts *metainternalversion.ListOptions) (st state, start string, err error) {
	if opts.Continue != "" {
		return r.continued(ctx, q, opts)
	}
	if err := r.waiter.await(ctx, opts.ResourceVersion); err != nil {
		return state{}, "", err
	}
	if !exact(opts) {
		st = r.view.lens.now(r.config.Table, q)
		return st, "", r.view.acceptanceError(st, "list")
	}
	rev, err := parseVersion(opts.ResourceVersion)
	if err != nil {
		return state{}, "", err
	}
	st, ok := r.atRevision(q, rev)
	if !ok {
		return state{}, "", apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	}
	return st, "", nil
}

// exact reports whether a list must be of the named revision and no later one. This is also the
// default for a list with a limit and a revision.
func exact(opts *metainternalversion.ListOptions) bool {
	if opts.ResourceVersionMatch != "" {
		return opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact
	}
	return opts.Limit > 0 && opts.ResourceVersion != "" && opts.ResourceVersion != "0"
}

const (
	// placeRoot precedes places in continue tokens, as the library requires.
	placeRoot = "/"
	// latest is the revision in a token that continues with the current state. Any negative
	// revision means the same.
	latest = -1
)

func continueAfter(place string, rev int64) (string, error) {
	token, err := storage.EncodeContinue(placeRoot+place+"\x00", placeRoot, rev)
	if err != nil {
		return "", fmt.Errorf("continue after %q: %w", place, err)
	}
	return token, nil
}

// continued returns the state of the list to which a token belongs.
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
		if err := r.waiter.await(ctx, ""); err != nil {
			return state{}, "", err
		}
		st = r.view.lens.now(r.config.Table, q)
		return st, start, r.view.acceptanceError(st, "list")
	}
	if err := r.waiter.awaitRevision(ctx, rev); err != nil {
		return state{}, "", err
	}
	st, ok := r.atRevision(q, rev)
	if !ok {
		return state{}, "", inconsistent(start)
	}
	return st, start, nil
}

// inconsistent returns the error that the state of a list is no longer available. It has a token
// that continues at the same place in the current state.
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

// atRevision returns the state at the current or a past revision. ok is false if the state is no
// longer available, belongs to a deleted space or location of the same name, or may not be read
// any more.
func (r *reader) atRevision(q query, rev int64) (st state, ok bool) {
	if rev < r.view.lens.since(r.config.Table) || !r.view.stillAccepted(rev) {
		return state{}, false
	}
	if st, ok := r.pages.get(keyOfPage(r.view.lens, q, rev), time.Now()); ok {
		return st, true
	}
	st = r.view.lens.now(r.config.Table, q)
	if st.rev == rev {
		return st, true
	}
	return r.history.rewound(q, st, rev)
}
