package reconcile

// Deleting a Namespace or a CustomResourceDefinition deletes what is in it, so it is
// deleted only when nothing in it has to stay. Consequences:
//
// All objects inside are looked at, all pages of every kind that can be listed. A kind
// that can't be listed may have objects of others.
//
// Ours is what the engine knows, and what proves to be ours by marks and managed
// fields. The engine then learns of it, so that it is removed like anything else that
// is not desired, and the container waits.
//
// What a controller owns is deleted with its owner. If the owner is inside, too, the
// owner counts. An owner elsewhere (cluster-scoped, or in another namespace) stays, so
// what it owns counts. If the owner is gone, the garbage collector soon deletes what it
// left: the container waits for that for a while, after which it counts.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

const (
	// inUseRetry is the first wait before the next look whether an object is in use: what is inside is not
	// observed. The wait doubles up to maxInUseRetry while a use is found.
	inUseRetry, maxInUseRetry = time.Minute, 15 * time.Minute
	// maxPages bounds the search for foreign objects of one kind.
	maxPages = 50
	// maxOwners bounds how many owners elsewhere are looked up in one turn.
	maxOwners = 50
	// collected is after how many turns an object that the garbage collector has not
	// deleted counts: with the waits between them, about a minute.
	collected = 10
)

// usage describes the use of an object that is to be deleted.
type usage struct {
	ours    bool   // wait: objects of ours inside, or objects that end by themselves, go first
	going   string // an object that ends by itself, for the report
	foreign string // another use, so that the object stays; empty: none
	desired bool   // with foreign: it is objects of this location that are not to go with it
	shared  bool   // with desired: they are another shard's
	lasting bool   // with foreign: it was expected to go, and has not
}

// users finds the uses of objects that are to be deleted.
type users struct {
	engine *worklist.Worklist
	target *kubeclient.Client
	store  *store.Store

	mu sync.Mutex
	// counts has, by identity, how often in a row a use was found.
	counts map[string]uint8
}

// again returns how long to wait before the next look whether an object is in use, after a look that has found
// a use. first is true if the look before it has found none.
func (u *users) again(id key.Identity, first bool) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.counts == nil {
		u.counts = map[string]uint8{}
	}
	count := u.counts[id.String()]
	if first {
		count = 0
	}
	u.counts[id.String()] = min(count+1, retry.MaxFailures)
	return min(inUseRetry<<count, maxInUseRetry)
}

// unused forgets how often a use of an object was found.
func (u *users) unused(id key.Identity) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.counts, id.String())
}

// find returns the use of a Namespace, by its content, or of a CustomResourceDefinition, by its objects.
func (u *users) find(ctx context.Context, t *turn) (usage, error) {
	id, attempts := t.id, t.view.Failures
	if id.Resource != key.Namespaces && id.Resource != key.CRDs {
		return usage{}, nil
	}
	wanted, leaving := u.engine.Within(id)
	if wanted > 0 {
		return usage{desired: true, foreign: fmt.Sprintf("%d objects of this location are still inside", wanted)}, nil
	}
	if leaving > 0 {
		return usage{ours: true}, nil
	}
	kinds, reason, err := u.kindsIn(ctx, id)
	if errors.Is(err, kubeclient.ErrStale) {
		return awaited(attempts, err.Error()), nil
	}
	if reason != "" || err != nil {
		return usage{foreign: reason, desired: reason != "" && !t.shard.Whole()}, err // there may be another shard's, too
	}
	s := &search{users: u, as: t.view.As, inside: map[string]bool{}}
	if id.Resource == key.Namespaces {
		s.namespace = id.Name
	}
	for _, k := range kinds {
		foreign, err := s.kind(ctx, k)
		if err != nil {
			return usage{}, err
		}
		s.foreign = cmp.Or(s.foreign, foreign)
		if s.foreign != "" && (t.shard.Whole() || s.shared != "") {
			break // no other object would change the result
		}
	}
	return s.left(ctx, attempts)
}

// kindsIn returns the kinds of which objects may be inside, or the reason why they are unknown.
func (u *users) kindsIn(ctx context.Context, id key.Identity) (kinds []kubeclient.Served, unknown string, err error) {
	if id.Resource == key.CRDs {
		return u.kindOf(ctx, id)
	}
	all, err := u.target.Removable(ctx)
	if err != nil { // there may be kinds that discovery did not show
		return nil, "", err
	}
	for _, k := range all {
		if k.Namespaced && !kubeclient.IsEvent(k.Resource) {
			kinds = append(kinds, k)
		}
	}
	return kinds, "", nil
}

// kindOf is the kind that a CustomResourceDefinition defines, in a version that is
// served. There is none if it was never established; then there are no objects either.
func (u *users) kindOf(ctx context.Context, id key.Identity) (kinds []kubeclient.Served, unknown string, err error) {
	d, err := u.target.Definition(ctx, id)
	if kubeclient.MissingObject(err, id) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	switch {
	case !d.Established:
		return nil, "", nil
	case len(d.Served) == 0:
		return nil, "it serves no version, so what there is of " + id.Name + " can't be seen", nil
	}
	resource, group, _ := strings.Cut(id.Name, ".")
	return []kubeclient.Served{{Place: kubeclient.Place{Resource: key.NewResource(group, resource), Version: d.Served[0]}, Kind: d.Kind}}, "", nil
}

// search looks for objects in a container that are not ours.
type search struct {
	*users
	as        ownership.Owner
	namespace string // empty: all
	ours      bool   // objects of ours were found that the engine did not know
	foreign   string // a foreign one was found, or why that can't be found out; empty: neither
	shared    string // one of another shard of the location was found, or may be there; empty: none
	others    bool   // one was found
	// inside are the UIDs of the objects found, owned those that have a controller.
	inside map[string]bool
	owned  []dependent
	// unknown names a kind that can't be searched now, and the reason; empty: none.
	unknown string
}

// dependent is an object that is owned by a controller.
type dependent struct {
	name      string
	namespace string
	owner     ownership.OwnerReference
}

// kindOf is a kind as the marks of ours have it.
func (s *search) kindOf(k kubeclient.Served) ownership.Kind {
	m := s.store.Meta()
	return ownership.Kind{Resource: k.Resource, Name: k.Kind, Placing: m.Placing, Shard: m.Shard}
}

// kind reads all objects of a kind. foreign names a foreign one, or is the reason why that can't
// be found out; empty: there is none. It ends once no other object would matter: a foreign
// one may be let go with its Namespace, one of another shard never.
func (s *search) kind(ctx context.Context, k kubeclient.Served) (foreign string, err error) {
	pages, whole := 0, s.store.Meta().Shard.Whole()
	_, err = s.target.Pages(ctx, k.Place, s.namespace, "", false, func(p *kubeclient.Page) (more bool, err error) {
		pages++
		var ours []key.Located
		var seen []worklist.Sighting
		for i := range p.Items {
			m := &p.Items[i].Metadata
			o := key.Identity{Resource: k.Resource, Namespace: m.Namespace, Name: m.Name}
			switch c := m.Controller(); {
			case c != nil:
				s.inside[m.UID] = true
				s.owned = append(s.owned, dependent{o.String(), m.Namespace, *c})
			case inEveryNamespace(k.Resource, m):
			default:
				kind := s.kindOf(k)
				located, proven := m.ProvesOurs(s.as, kind)
				if m.Written(s.as) && m.ProvesOthers(s.as, kind) {
					s.shared, s.others = "there is "+o.String()+", of another shard of this location", true
					continue
				}
				if !proven || !m.Written(s.as) {
					foreign = "there is " + o.String()
					if whole {
						return false, nil
					}
					continue
				}
				s.inside[m.UID] = true
				if m.WrittenAs(s.as, k.Resource) { // otherwise the agent knows it as one of another group
					ours = append(ours, located)
					seen = append(seen, worklist.Sighting{Object: located.Object, Moved: located.Moved, Ours: true, Seen: *decide.ObservedOf(m, s.as)})
				}
			}
		}
		if len(ours) > 0 {
			s.ours = true
			s.engine.Adopt(k, ours)
			s.engine.Observe(s.as, seen, 0)
		}
		if pages == maxPages && p.More() {
			foreign = "there are very many " + k.String()
			s.mayBeShared(foreign)
			return false, nil
		}
		return true, nil
	})
	if status := kubeclient.StatusOf(err); status != nil && status.Code >= http.StatusInternalServerError { // its server, or its conversion, fails
		s.unknown = fmt.Sprintf("whether there are %s can't be found out now: %s", k, status.Message)
		return "", nil
	}
	if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) || apierrors.IsNotAcceptable(err) {
		foreign, err = fmt.Sprintf("whether there are %s can't be found out: %s", k, kubeclient.StatusOf(err).Message), nil
		s.mayBeShared(foreign)
	}
	return foreign, err
}

// mayBeShared records objects that were not read, of which some may be another shard's.
func (s *search) mayBeShared(what string) {
	if !s.store.Meta().Shard.Whole() && !s.others {
		s.shared = what
	}
}

// left is the usage by the objects that were found in all kinds. In a location with shards,
// objects that can't be read now may be another shard's, whatever else was found.
func (s *search) left(ctx context.Context, attempts uint8) (usage, error) {
	whole := s.store.Meta().Shard.Whole()
	switch {
	case s.foreign != "" && s.shared == "" && (whole || s.unknown == ""):
		return usage{foreign: s.foreign}, nil
	case s.ours:
		return usage{ours: true}, nil
	case s.shared != "":
		return usage{desired: true, shared: s.others, foreign: s.shared}, nil
	case s.unknown != "":
		use := awaited(attempts, s.unknown)
		use.desired = use.foreign != "" && !whole
		return use, nil
	}
	var going string
	queried := map[string]bool{}
	for _, d := range s.owned {
		if s.inside[d.owner.UID] || queried[d.owner.UID] {
			continue
		}
		if len(queried) == maxOwners {
			break
		}
		queried[d.owner.UID] = true
		there, err := s.exists(ctx, d)
		if err != nil {
			return usage{}, err
		}
		if there {
			return usage{foreign: fmt.Sprintf("there is %s, which %s %s owns", d.name, d.owner.Kind, d.owner.Name)}, nil
		}
		going = "there is " + d.name + ", whose owner is gone"
	}
	switch {
	case len(s.owned) > 0 && len(queried) == 0: // they own each other
		return usage{foreign: "there is " + s.owned[0].name}, nil
	case going != "":
		return awaited(attempts, going), nil
	}
	return usage{}, nil
}

// awaited is the usage by something that should end by itself: wait for it, until there
// were too many attempts.
func awaited(attempts uint8, what string) usage {
	if attempts >= collected {
		return usage{foreign: what, lasting: true}
	}
	return usage{ours: true, going: what}
}

// exists reports whether an owner exists. One that the agent can't or may not read counts as
// existing.
func (s *search) exists(ctx context.Context, d dependent) (bool, error) {
	if strings.Contains(d.owner.APIVersion, "..") || strings.Count(d.owner.APIVersion, "/") > 1 {
		return true, nil // this is no version, and would be another path
	}
	all, err := s.target.Resources(ctx, d.owner.APIVersion)
	if kubeclient.MissingKind(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, k := range all {
		if k.Kind != d.owner.Kind {
			continue
		}
		id := key.Identity{Resource: k.Resource, Name: d.owner.Name}
		if k.Namespaced { // an owner is in the same namespace, or cluster-scoped
			id.Namespace = d.namespace
		}
		if err := id.Validate(); err != nil {
			return true, nil //nolint:nilerr // an owner that can't be asked for counts as there
		}
		m, err := s.target.Get(ctx, k.Place, id)
		switch {
		case kubeclient.MissingObject(err, id), kubeclient.MissingNamespace(err, id):
			return false, nil
		case apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
			return true, nil
		}
		return err == nil && m.UID == d.owner.UID, err
	}
	return false, nil
}

// cascades reports whether an object may be deleted together with what others have in it: it
// takes a user of the cluster to allow that.
func cascades(m *ownership.Meta) bool { return m.Allows(v1alpha1.CascadeAnnotation) }
