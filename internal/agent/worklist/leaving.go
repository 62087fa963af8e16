package worklist

import (
	"time"

	"orrery.dev/orrery/internal/protocol/key"
)

// Objects that are removed together go in order: controllers run while their custom
// resources are finalized, and keep their permissions and configuration until their Pods
// have ended. This is best effort: each object holds up others for a bounded time, and
// the order is kept in memory only.
const (
	// hooksTimeout, CustomTimeout and PodsTimeout are how long an object that is being
	// removed holds up later removals: API servers, controllers and Pods have that long to finish.
	hooksTimeout  = 15 * time.Second
	CustomTimeout = time.Minute
	PodsTimeout   = 5 * time.Minute
	// rolesTimeout is how long ClusterRoles hold up the ones that aggregate them, and
	// RolesCalm how long those stay after the last: Kubernetes' aggregation controller
	// makes them again if it still has an update to write.
	rolesTimeout = 15 * time.Second
	RolesCalm    = time.Second
	// OrderRetry is how often an object that waits looks again without an event.
	OrderRetry = 30 * time.Second
	// TellAfter is how long a wait must be to be reported.
	TellAfter = time.Second
)

// TimeoutOf returns how long an object of a rank holds up others while it is removed.
func TimeoutOf(r rank) time.Duration {
	switch r {
	case rankHooks:
		return hooksTimeout
	case rankCustom:
		return CustomTimeout
	case rankWorkloads:
		return PodsTimeout
	default:
		return rolesTimeout
	}
}

// scope is a set of objects that hold up others while they are removed: those of one
// space and one rank in a namespace.
type scope struct {
	space key.Space
	rank  rank
	in    string // a namespace; empty: cluster-scoped; or anywhere, or roles
}

const (
	anywhere = "*"
	// roles are the ClusterRoles, which hold up those that aggregate them.
	roles = "*clusterroles"
)

// ClusterRoles is the resource of ClusterRoles.
var ClusterRoles = key.Resource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}

// order has the ranks that hold up others, in the order of removal.
var order = [...]rank{rankHooks, rankCustom, rankWorkloads}

// openTime is a clock that runs only while the gate is open. Timeouts are measured by it:
// while nothing may be changed at the target, nothing can be removed in time.
type openTime struct {
	since time.Time     // when the gate was opened; zero: it is closed
	sum   time.Duration // how long it was open before that
}

func newOpenTime(now time.Time) openTime { return openTime{since: now} }

// set starts or stops the clock.
func (o *openTime) set(open bool, now time.Time) {
	if open == !o.since.IsZero() {
		return
	}
	o.sum, o.since = o.elapsed(now), time.Time{}
	if open {
		o.since = now
	}
}

// elapsed returns how long the gate was open until now.
func (o *openTime) elapsed(now time.Time) time.Duration {
	if o.since.IsZero() {
		return o.sum
	}
	return o.sum + max(0, now.Sub(o.since))
}

// unset is an open time that is not recorded yet.
const unset time.Duration = -1

// leaves are the items that are being removed. They are guarded by the engine's lock.
type leaves struct {
	// there has the items that hold up others, waiting those that are held up.
	there, waiting map[scope]map[*Item]struct{}
	// push queues an item.
	push func(*Item)
}

func newLeaves(push func(*Item)) *leaves {
	return &leaves{there: map[scope]map[*Item]struct{}{}, waiting: map[scope]map[*Item]struct{}{}, push: push}
}

// leaving notes that an item is being removed, which came from a space.
func (all *leaves) leaving(it *Item, s key.Space) {
	if it.leave != nil {
		return
	}
	it.leave = &leave{space: s, began: unset, held: unset, emptySince: unset}
	id, rank := it.Identity(), it.kind.rank
	switch {
	case id.Resource == ClusterRoles:
		it.leave.scopes = []scope{{s, rank, roles}}
	case rank >= rankWorkloads:
		it.leave.scopes = []scope{{s, rank, id.Namespace}, {s, rank, anywhere}}
	}
	for _, s := range it.leave.scopes {
		if all.there[s] == nil {
			all.there[s] = map[*Item]struct{}{}
		}
		all.there[s][it] = struct{}{}
	}
}

// stays notes that an item is not being removed: it is gone, desired, or its removal
// does not go on for now.
func (all *leaves) stays(it *Item) {
	if it.leave == nil {
		return
	}
	all.passes(it)
	all.proceeds(it)
	it.leave = nil
}

// passes records that an item holds up no others any more, and queues those that it held up.
func (all *leaves) passes(it *Item) {
	for _, s := range it.leave.scopes {
		delete(all.there[s], it)
		if len(all.there[s]) > 0 {
			continue
		}
		delete(all.there, s)
		for w := range all.waiting[s] {
			all.push(w)
		}
		delete(all.waiting, s)
	}
	it.leave.scopes = nil
}

// proceeds notes that an item does not wait any more.
func (all *leaves) proceeds(it *Item) {
	l := it.leave
	if waiting := all.waiting[l.awaits]; waiting != nil {
		if delete(waiting, it); len(waiting) == 0 {
			delete(all.waiting, l.awaits)
		}
	}
	l.held, l.awaits, l.named = unset, scope{}, nil
}

// left notes the outcome of a turn, and returns after how long to look at the item
// again. now is open time.
func (all *leaves) left(it *Item, r Result, now time.Duration) time.Duration {
	if !r.Leaving {
		all.stays(it)
		return r.Retry
	}
	all.leaving(it, r.Space)
	l := it.leave
	if r.Held {
		return r.Retry
	}
	all.proceeds(it)
	if l.began == unset {
		l.began = now
	}
	rest := TimeoutOf(it.kind.rank) - (now - l.began)
	switch {
	case len(l.scopes) == 0:
		return r.Retry
	case rest <= 0:
		all.passes(it)
		return r.Retry
	case r.Retry == 0:
		return rest
	}
	return min(r.Retry, rest)
}

// Awaited is what the removal of an item waits for.
type Awaited struct {
	ID   string // one of the items that go before; empty: none is left
	Rank rank
	// Held is how long the item has waited, Rest how much longer it waits at most.
	Held, Rest time.Duration
}

// ahead finds what has to be removed before an item. now is open time.
func (all *leaves) ahead(it *Item, aggregates bool, now time.Duration) (Awaited, bool) {
	l, most := it.leave, hooksTimeout+CustomTimeout+PodsTimeout
	if aggregates {
		most = rolesTimeout
		if l.scopes != nil {
			all.passes(it) // roles that aggregate do not hold up each other
			all.proceeds(it)
		}
	}
	held := time.Duration(0)
	if l.held != unset {
		held = now - l.held
	}
	for s := range it.after(aggregates) {
		there := all.there[s]
		if len(there) == 0 || held >= most {
			continue
		}
		if _, still := there[l.named]; !still || l.awaits != s {
			all.await(it, s, now)
		}
		return Awaited{ID: l.named.ID, Rank: s.rank, Held: held, Rest: most - held}, true
	}
	if !aggregates {
		return Awaited{}, false
	}
	if l.emptySince == unset {
		l.emptySince = now
	}
	if rest := RolesCalm - (now - l.emptySince); rest > 0 {
		return Awaited{Rank: rankConfig, Rest: rest}, true
	}
	return Awaited{}, false
}

// await has an item wait for the removals in a scope.
func (all *leaves) await(it *Item, s scope, now time.Duration) {
	since := it.leave.held
	all.proceeds(it)
	l := it.leave
	l.held, l.awaits = since, s
	if since == unset {
		l.held = now
	}
	for l.named = range all.there[s] {
		break
	}
	if all.waiting[s] == nil {
		all.waiting[s] = map[*Item]struct{}{}
	}
	all.waiting[s][it] = struct{}{}
}

// after yields the scopes that an item is removed after. An object in a namespace waits
// for that namespace and for cluster-scoped objects. Workloads and RBAC wait for those
// anywhere, since controllers work in other namespaces, too.
func (it *Item) after(aggregates bool) func(yield func(scope) bool) {
	id, mine, space := it.Identity(), it.kind.rank, it.leave.space
	wide := id.Namespace == "" || mine >= rankWorkloads || id.Group == ClusterRoles.Group
	return func(yield func(scope) bool) {
		if aggregates {
			yield(scope{space, mine, roles})
			return
		}
		for _, r := range order {
			switch {
			case r <= mine, mine == rankNamespaces: // a Namespace waits until nothing of ours is in it (users.find)
				return
			case wide:
				if !yield(scope{space, r, anywhere}) {
					return
				}
			case !yield(scope{space, r, id.Namespace}) || !yield(scope{space, r, ""}):
				return
			}
		}
	}
}
