package agent

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
)

// cluster is a Kubernetes API in memory, as far as an agent uses one: objects
// with field managers, UIDs and revisions, namespaces and definitions that take
// what is in them along, and watches. Its rules are those of kube-apiserver;
// what is inside an object is a flat set of fields.
type cluster struct {
	mu       sync.Mutex
	rng      *rand.Rand
	revision uint64
	uids     int
	objects  map[string]*thing // by identity; each is immutable
	log      []happening
	// compacted is the revision up to which no watch can begin any more; epoch is
	// that of the watches that are not to end.
	compacted uint64
	epoch     int
	changed   chan struct{} // closed and replaced at each change
	weather   weather
	taken     time.Time // when the last request was taken, or is to be
	// checkChange is called with each change by an agent, before it is made.
	checkChange func(verb string, before, after *thing)
	// listed are the revisions at which a resource was last listed as a whole, or as far
	// as it is in a namespace.
	listed map[collection]uint64
	// requests counts the requests for single objects.
	requests map[key.Identity]int
	// writes counts the changes that the agent made, and wrote lists them.
	writes int
	wrote  []string
	// lists counts lists by resource; closed are the resources for which lists are forbidden, failing
	// those for which lists fail.
	lists           map[key.Resource]int
	closed, failing map[key.Resource]bool
	// aliased reports whether ConfigMaps are served in another group, too; stale is a group
	// whose resources discovery does not know now; empty for none.
	aliased bool
	stale   string
	// aggregated is how widgets are served without a definition: up, down if their API server does not answer, and
	// gone if nothing is registered; empty: by their definition.
	aggregated string
	// hangs is a group that does not answer; empty: none.
	hangs string
	// version is the one in which widgets are served; empty: v1.
	version string
	// open reports whether requests for whole objects return whole objects.
	open bool
	// littered reports whether the garbage collector is off.
	littered bool
	// slow is how long objects take to go; longer than never: until they need not wait.
	slow map[key.Identity]time.Duration
	// leases are the Leases by which agents share a location, by name; nil: none can be made.
	leases   map[string]*coordinationv1.Lease
	leaseLog []leaseChange
}

type collection struct {
	resource  key.Resource
	namespace string
}

// happening is one change of an object. before is nil for a creation, after for a deletion.
type happening struct {
	revision      uint64
	before, after *thing
	time          time.Time
}

// kindOf is a resource.
type kindOf struct {
	key.Resource
	version, kind string
	namespaced    bool
}

var kindsServed = []kindOf{
	{key.Namespaces, "v1", "Namespace", false},
	{key.NewResource("", "configmaps"), "v1", "ConfigMap", true},
	{key.NewResource("", "services"), "v1", "Service", true},
	{key.NewResource("batch", "jobs"), "v1", "Job", true},
	{key.CRDs, "v1", "CustomResourceDefinition", false},
	{key.NewResource("example.com", "widgets"), "v1", "Widget", true},
	{hooks, "v1", "ValidatingWebhookConfiguration", false},
	{worklist.ClusterRoles, "v1", "ClusterRole", false},
}

var hooks = key.NewResource("admissionregistration.k8s.io", "validatingwebhookconfigurations")

func servedKind(r key.Resource) kindOf {
	i := slices.IndexFunc(kindsServed, func(s kindOf) bool { return s.Resource == r })
	return kindsServed[i]
}

var widgetsCRD = key.Identity{Resource: key.CRDs, Name: "widgets.example.com"}

func newCluster(rng *rand.Rand) *cluster {
	return &cluster{
		rng: rng, revision: 100, objects: map[string]*thing{}, changed: make(chan struct{}),
		checkChange: func(string, *thing, *thing) {}, listed: map[collection]uint64{}, requests: map[key.Identity]int{},
		lists: map[key.Resource]int{}, closed: map[key.Resource]bool{}, failing: map[key.Resource]bool{},
	}
}

// serves reports whether the resource is served now.
func (c *cluster) serves(r key.Resource) bool {
	if r.APIGroup() != "example.com" {
		return true
	}
	if c.aggregated != "" {
		return c.aggregated != "gone"
	}
	d := c.objects[widgetsCRD.String()]
	return d != nil
}

// versionsOf are those that a group is served in.
func (c *cluster) versionsOf(group string) []string {
	if group == "example.com" && c.version != "" {
		return []string{c.version}
	}
	return []string{"v1"}
}

// serveIn serves widgets in another version, and no longer in the previous one. From the next
// change on, the fields of managers that wrote in the previous version have no owner.
func (c *cluster) serveIn(version string) {
	c.version = version
	c.epoch++
	for _, k := range slices.Sorted(maps.Keys(c.objects)) {
		if o := c.objects[k]; o.id.APIGroup() == "example.com" {
			n := o.copy()
			n.owners = map[owner]map[string]bool{}
			c.set(k, n)
		}
	}
	c.wake()
}

// set creates, changes or, with a nil after, removes an object, and notifies watches.
func (c *cluster) set(id string, after *thing) *thing {
	before := c.objects[id]
	c.revision++
	if after != nil {
		after.revision, after.open = c.revision, c.open
		if before == nil {
			c.uids++
			after.uid, after.created = fmt.Sprintf("uid-%d", c.uids), c.revision
		}
		after.json = after.encode()
		c.objects[id] = after
	} else {
		gone := *before
		gone.revision = c.revision
		gone.json = gone.encode()
		before = &gone
		delete(c.objects, id)
	}
	c.log = append(c.log, happening{c.revision, before, after, time.Now()})
	close(c.changed)
	c.changed = make(chan struct{})
	if after == nil || before == nil && after.controlled {
		c.collect()
	}
	return after
}

// ownerOf is what a controller made an object for; nil: it is not where it would have
// to be.
func (c *cluster) ownerOf(o *thing) *thing {
	id := key.Identity{Resource: key.Namespaces, Name: o.controller.Name}
	if o.controller.Kind == "ConfigMap" {
		id.Resource, id.Namespace = key.NewResource("", "configmaps"), o.id.Namespace
	}
	if owner := c.objects[id.String()]; owner != nil && owner.uid == o.controller.UID {
		return owner
	}
	return nil
}

// collect has the garbage collector look, by and by.
func (c *cluster) collect() {
	if c.littered {
		return
	}
	time.AfterFunc(time.Duration(1+c.rng.IntN(3000))*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range slices.Sorted(maps.Keys(c.objects)) {
			if o := c.objects[k]; o != nil && !o.terminating && o.controlled && c.ownerOf(o) == nil {
				c.remove(k)
			}
		}
	})
}

// remove deletes an object as the cluster does: a namespace or a definition first
// empties itself.
func (c *cluster) remove(id string) {
	o := c.objects[id]
	var inside func(*thing) bool
	switch {
	case o.terminating:
		return
	case o.id.Resource == key.Namespaces:
		inside = func(x *thing) bool { return x.id.Namespace == o.id.Name }
	case o.id == widgetsCRD:
		inside = func(x *thing) bool { return x.id.APIGroup() == "example.com" }
	default:
		c.set(id, nil)
		return
	}
	dying := o.copy()
	dying.terminating = true
	c.set(id, dying)
	time.AfterFunc(time.Duration(1+c.rng.IntN(3000))*time.Millisecond, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if now := c.objects[id]; now == nil || now.uid != o.uid || !now.terminating { // the cluster was restored
			return
		}
		for _, k := range slices.Sorted(maps.Keys(c.objects)) {
			if inside(c.objects[k]) {
				c.set(k, nil)
			}
		}
		c.set(id, nil)
	})
}
