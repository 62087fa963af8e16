package kinds

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"orrery.dev/orrery/internal/protocol/key"
)

// Access is what clients may do with the objects of a kind in one catalog.
type Access int

const (
	// ReadWrite allows everything.
	ReadWrite Access = iota
	// Terminating is for a kind whose CRD is being deleted: objects can be read
	// and deleted, and changed as far as that needs (finalizers), but not created.
	Terminating
	// ReadOnly allows get, list and watch.
	ReadOnly
	// Review is for reviews, which are answered and not stored: it allows only create.
	Review
	// Waiting is for a bound resource whose provider has no usable definition at the moment:
	// objects can be read and deleted; other writes fail with a request to retry.
	Waiting
)

// Allows reports whether a verb of the Kubernetes API is served.
func (a Access) Allows(verb string) bool {
	switch a {
	case ReadOnly:
		return verb == "get" || verb == "list" || verb == "watch"
	case Terminating:
		return verb != "create"
	case Review:
		return verb == "create"
	case Waiting:
		return verb != "create" && verb != "update" && verb != "patch"
	default:
		return true
	}
}

// Catalog is a set of kinds that is served under one root: the kinds of a space
// or of a view. It is immutable.
type Catalog struct {
	// base is a catalog to which this one adds; nil if there is none. The catalog of a space
	// thus needs memory only for the space's own kinds.
	base  *Catalog
	kinds []*Kind
	// access contains the kinds whose access is not ReadWrite.
	access map[*Kind]Access
	served map[schema.GroupVersionResource]*Kind
	stored map[key.Resource]*Kind
	// owned contains the resources that CRDs and APIBindings of the space define.
	owned map[key.Resource]Owned
}

// Owned is a resource that an object of a space, a CRD or an APIBinding, defines there.
type Owned struct {
	// Kinds are the versions of one resource.
	Kinds  []*Kind
	Access Access
	// Owner is the CRD or the APIBinding. Objects of the resource are deleted before it.
	Owner key.Identity
	// Why is the reason for the access Waiting.
	Why string
}

// NewCatalog returns a catalog of kinds. access returns the access to each kind; nil means
// ReadWrite for all. Of two kinds for one resource of one version the first is served.
func NewCatalog(kinds []*Kind, access func(*Kind) Access) *Catalog {
	return extend(nil, kinds, access)
}

// With returns the catalog with more kinds. They do not replace kinds of the catalog.
func (c *Catalog) With(kinds []*Kind, access func(*Kind) Access) *Catalog {
	return extend(c, kinds, access)
}

// WithOwned returns the catalog with the resources that objects of a space define. If two objects
// define one resource, the first does.
func (c *Catalog) WithOwned(all []Owned) *Catalog {
	var kinds []*Kind
	access, owned := map[*Kind]Access{}, map[key.Resource]Owned{}
	for _, o := range all {
		if len(o.Kinds) == 0 {
			continue
		}
		r := o.Kinds[0].Resource
		if _, ok := owned[r]; ok {
			continue
		}
		owned[r] = o
		for _, k := range o.Kinds {
			kinds, access[k] = append(kinds, k), o.Access
		}
	}
	made := extend(c, kinds, func(k *Kind) Access { return access[k] })
	made.owned = owned
	return made
}

func extend(base *Catalog, kinds []*Kind, access func(*Kind) Access) *Catalog {
	c := &Catalog{
		base:   base,
		access: map[*Kind]Access{},
		served: make(map[schema.GroupVersionResource]*Kind, len(kinds)),
		stored: make(map[key.Resource]*Kind, len(kinds)),
	}
	for _, k := range kinds {
		if _, ok := c.Lookup(k.GVR); ok {
			continue
		}
		c.served[k.GVR] = k
		c.kinds = append(c.kinds, k)
		if access != nil {
			if a := access(k); a != ReadWrite {
				c.access[k] = a
			}
		}
		if old := c.stored[k.Resource]; old == nil || betterForStorage(k, old) {
			c.stored[k.Resource] = k
		}
	}
	sortKinds(c.kinds)
	return c
}

func sortKinds(kinds []*Kind) {
	slices.SortStableFunc(kinds, func(a, b *Kind) int {
		return cmp.Or(
			compareGroups(a.GVR.Group, b.GVR.Group),
			version.CompareKubeAwareVersionStrings(b.GVR.Version, a.GVR.Version),
			cmp.Compare(a.GVR.Resource, b.GVR.Resource))
	})
}

// betterForStorage reports whether k suits stored objects better than old: it prefers the stored
// version, then the group of the stored objects, then the version that clients prefer.
func betterForStorage(k, old *Kind) bool {
	if a, b := k.StoredAsServed(), old.StoredAsServed(); a != b {
		return a
	}
	if a, b := k.Resource.APIGroup() == k.GVR.Group, old.Resource.APIGroup() == old.GVR.Group; a != b {
		return a
	}
	return version.CompareKubeAwareVersionStrings(k.GVR.Version, old.GVR.Version) > 0
}

// Lookup finds the kind that is served as a resource.
func (c *Catalog) Lookup(gvr schema.GroupVersionResource) (*Kind, bool) {
	if c.base != nil {
		if k, ok := c.base.Lookup(gvr); ok {
			return k, true
		}
	}
	k, ok := c.served[gvr]
	return k, ok
}

// Access returns the operations that are allowed on a kind of the catalog.
func (c *Catalog) Access(k *Kind) Access {
	if a, ok := c.access[k]; ok || c.base == nil {
		return a
	}
	return c.base.Access(k)
}

// Owner returns the object of the space that defines a kind's resource: a CRD or an APIBinding. It
// is zero for resources that every space has, and for those that this one does not have.
func (c *Catalog) Owner(k *Kind) key.Identity {
	if o, ok := c.owned[k.Resource]; ok || c.base == nil {
		return o.Owner
	}
	return c.base.Owner(k)
}

// retryWaiting is the number of seconds after which a client should retry a write to a kind whose
// access is Waiting. Clients of client-go retry ten times before they return the error.
const retryWaiting = 1

// Waits returns the error for a verb that is not possible until a kind is defined again; nil if the
// verb is possible now.
func (c *Catalog) Waits(k *Kind, verb string) error {
	if c.Access(k) != Waiting || Waiting.Allows(verb) {
		return nil
	}
	o := c.owned[k.Resource]
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable,
		Message: fmt.Sprintf("%s can't be written now: APIBinding %q: %s", k.GVR.GroupResource(), o.Owner.Name, o.Why),
		Details: &metav1.StatusDetails{Group: k.GVR.Group, Kind: k.GVR.Resource, RetryAfterSeconds: retryWaiting},
	}}
}

// ForStorage returns the kind for stored objects of a resource, where only one version can be
// used: the storage version or, if that is not served, the preferred version.
func (c *Catalog) ForStorage(r key.Resource) (*Kind, bool) {
	if c.base != nil {
		if k, ok := c.base.ForStorage(r); ok {
			return k, true
		}
	}
	k, ok := c.stored[r]
	return k, ok
}

// Kinds returns all kinds: groups as Kubernetes orders them, versions from the
// preferred one on, resources by name. The caller must not change the slice.
func (c *Catalog) Kinds() []*Kind {
	switch {
	case c.base == nil:
		return c.kinds
	case len(c.kinds) == 0:
		return c.base.Kinds()
	}
	kinds := slices.Concat(c.base.Kinds(), c.kinds)
	sortKinds(kinds)
	return kinds
}

// compareGroups orders groups as a Kubernetes API server does: core first, then the built-in
// groups, Orrery's, and those of CRDs by name. The order decides which group a client means
// by a name that several groups have.
func compareGroups(a, b string) int {
	return cmp.Or(cmp.Compare(groupRank(a), groupRank(b)), cmp.Compare(a, b))
}

func groupRank(group string) int {
	if i := slices.Index(groupOrder, group); i >= 0 {
		return i
	}
	return len(groupOrder)
}

var groupOrder = []string{
	"",
	"apiregistration.k8s.io",
	"apps",
	"events.k8s.io",
	"authentication.k8s.io",
	"authorization.k8s.io",
	"autoscaling",
	"batch",
	"certificates.k8s.io",
	"networking.k8s.io",
	"policy",
	"rbac.authorization.k8s.io",
	"storage.k8s.io",
	"admissionregistration.k8s.io",
	"apiextensions.k8s.io",
	"scheduling.k8s.io",
	"coordination.k8s.io",
	"node.k8s.io",
	"discovery.k8s.io",
	"resource.k8s.io",
	"flowcontrol.apiserver.k8s.io",
	"orrery.dev",
}
