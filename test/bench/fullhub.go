package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// fullHub is a hub of its own with a whole fleet: each location has a space with
// objects that no other location gets, by a Placement that selects it by its label, as
// a tenant's Placement does; and one more space has objects that all locations get. All
// are connected. It is filled step by step.
type fullHub struct {
	ownHub
	// whole leads to the hub's root path, writers are more of the same.
	whole   *client
	writers []*client
	// edited counts the edits of objects that one location gets, each of which has another
	// number; editCPU is what the hub took for one of them.
	edited  int
	editCPU time.Duration
}

// fillFleet fills such a hub, so that it comes to rest while something else is measured.
func (b *bench) fillFleet() error {
	_, err := b.filledFleet()
	return err
}

// filledFleet starts and fills such a hub, unless there is one, which endFleet ends.
func (b *bench) filledFleet() (*fullHub, error) {
	if b.full != nil {
		return b.full, context.Cause(b.full.ctx)
	}
	own, err := b.newOwnHub(stateSpace(b.size.sites)) // that of what all locations get
	if err != nil {
		return nil, err
	}
	f := &fullHub{ownHub: own}
	b.full = f
	return f, f.take("fleet", phase{"locations", f.addLocations}, phase{"own objects", f.addOwn}, phase{"shared objects", f.addShared})
}

// wholeFleet measures such a hub: what it holds, once it has had time to come to rest, edits at
// a steady rate, edits of what all have, agents that all connect anew, and a restart.
func (b *bench) wholeFleet() error {
	f, err := b.filledFleet()
	if err != nil {
		return err
	}
	return f.take("fleet", phase{"state", f.readState}, phase{"edits", f.editSteadily}, phase{"shared edits", f.editShared}, phase{"reconnects", f.reconnectAll},
		phase{"changes meanwhile", f.returnLate}, phase{"nothing left", f.returnEmpty}, phase{"restart", f.restart})
}

// endFleet ends that hub, so that what is measured after it has the machine for itself.
func (b *bench) endFleet() error {
	if b.full != nil {
		b.full.end()
		b.full = nil
	}
	return nil
}

// sharedSpace is the space of what all locations get.
func (f *fullHub) sharedSpace() string { return stateSpace(f.bench.size.sites) }

// sharedObject is the name of one of the objects that all locations get; no other has it.
func sharedObject(i int) string { return "shared-" + nameOf(i) }

// pairs are the objects at all locations.
func (f *fullHub) pairs() int {
	return f.bench.size.sites * (f.bench.size.ownEach + f.bench.size.shared)
}

// ownObject is the path of one of the objects that one location gets: consecutive ones are of
// other locations. After the last comes the first.
func (f *fullHub) ownObject(i int) string {
	sites := f.bench.size.sites
	i %= sites * f.bench.size.ownEach
	return "/spaces/" + stateSpace(i%sites) + configMaps("default") + "/" + nameOf(i/sites)
}

// addLocations makes spaces, locations and Placements, and connects agents.
func (f *fullHub) addLocations() (err error) {
	b := f.bench
	if f.whole, err = newClient(b.hub.PathConfig("")); err != nil {
		return err
	}
	const writers = 16
	f.writers = make([]*client, writers)
	for i := range f.writers {
		if f.writers[i], err = newClient(b.hub.PathConfig("")); err != nil {
			return err
		}
	}
	if err := f.furnish(b.size.sites+1, b.size.sites); err != nil {
		return err
	}
	if err := share(b.ctx, f.writers, b.size.sites, func(ctx context.Context, c *client, i int) error {
		mine := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{siteLabel: simulatedName(i)}}}
		return c.create(ctx, "/spaces/"+stateSpace(i)+placementsPath, placement(stateName, "default", "configmaps", mine, v1alpha1.ReturnStatusNone))
	}); err != nil {
		return err
	}
	all := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{}}
	if err := b.space.create(b.ctx, placementsPath, placement(stateName, "default", "configmaps", all, v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	f.last = b.idle.hub.Usage().RSSAnon
	return b.calmDown()
}

// addOwn reads what the locations cost, against a hub without any, and makes the
// objects that one location each gets.
func (f *fullHub) addOwn() error {
	b := f.bench
	each, err := f.grown(b.size.sites)
	if err != nil {
		return err
	}
	b.report.set("fleet.location.memory", each, "%d locations, hub %s", b.size.sites, megabytes(f.last))
	defer f.drain()()
	if err := share(b.ctx, f.writers, b.size.sites*b.size.ownEach, func(ctx context.Context, c *client, i int) error {
		in := "/spaces/" + stateSpace(i%b.size.sites)
		return c.create(ctx, in+configMaps("default"), configMap("default", nameOf(i/b.size.sites), 2<<10, "wanted"))
	}); err != nil {
		return err
	}
	return f.settledAll()
}

// settledAll waits until the counts of each Placement report all its objects as applied.
func (f *fullHub) settledAll() error {
	b := f.bench
	if err := share(b.ctx, f.writers, b.size.sites, func(_ context.Context, c *client, i int) error {
		return b.settledAt(c, "/spaces/"+stateSpace(i)+placementsPath+"/"+stateName, b.size.ownEach, b.size.ownEach)
	}); err != nil {
		return err
	}
	return b.calmDown()
}

// addShared reads what the own objects cost, and makes those that all locations get.
func (f *fullHub) addShared() error {
	b := f.bench
	each, err := f.grown(b.size.sites * b.size.ownEach)
	if err != nil {
		return err
	}
	b.report.set("fleet.own.memory", each, "%d objects of 2 KB, hub %s", b.size.sites*b.size.ownEach, megabytes(f.last))
	defer f.drain()()
	if err := share(b.ctx, f.writers, b.size.shared, func(ctx context.Context, c *client, i int) error {
		return c.create(ctx, "/spaces/"+f.sharedSpace()+configMaps("default"), configMap("default", sharedObject(i), 2<<10, "wanted"))
	}); err != nil {
		return err
	}
	if err := b.waitApplied(stateName, b.size.shared, b.size.shared*b.size.sites); err != nil {
		return err
	}
	err = b.calmDown()
	f.rest = time.Now()
	return err
}

// readState reads what the shared objects cost, and the sum of it all.
func (f *fullHub) readState() error {
	b := f.bench
	each, err := f.grown(b.size.shared * b.size.sites)
	if err != nil {
		return err
	}
	b.report.set("fleet.pair.memory", each, "%d objects at %d locations", b.size.shared, b.size.sites)
	if err := f.rested(); err != nil {
		return err
	}
	kept, usage := f.last, b.hub.Usage()
	f.last = usage.RSSAnon
	b.report.set("fleet.memory", float64(usage.RSSAnon)/1e6, "%d objects of 2 KB, %d reports; RSS %s, foreseen %s",
		b.size.sites*b.size.ownEach+b.size.shared, f.pairs(), megabytes(usage.RSS), megabytes(kept))
	database, err := b.database()
	b.report.set("fleet.disk", float64(database)/1e6, "with its history")
	return err
}

// servedBy returns the list of a cluster's APIs as its agent sends it to the hub, with digests in place of those
// of schemas.
func servedBy(c *env.Cluster) ([]wire.API, error) {
	discoverer, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	_, lists, err := discoverer.ServerGroupsAndResources()
	if err != nil {
		return nil, fmt.Errorf("ask the cluster what it serves: %w", err)
	}
	all := make([]wire.API, 0, len(lists))
	for _, l := range lists {
		api := wire.API{GroupVersion: l.GroupVersion, Digest: wire.SumOf([]byte(l.GroupVersion)).String()[:16]}
		for i := range l.APIResources {
			api.Resources = append(api.Resources, l.APIResources[i].Name)
		}
		all = append(all, api)
	}
	return all, nil
}
