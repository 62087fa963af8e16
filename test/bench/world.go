package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

const (
	spaceName = "bench"
	// site is the location whose cluster is real.
	site = "site"
)

// bench is what the measurements share: a hub with a space, and a real
// kube-apiserver whose agent reaches the hub through a proxy that counts. It is
// used by one goroutine.
type bench struct {
	t      env.T
	ctx    context.Context
	size   size
	report *report

	hub     *env.Hub
	cluster *env.Cluster
	agent   *env.Agent
	// link is between the agent and the hub, and front a place before the hub that
	// link can lead to.
	link  *env.Link
	front *front
	// root and space are the operators' and the users' space, target the cluster.
	root, space, target *client
	// writers write many things into the space at once.
	writers []*client
	// placed is how many objects the site has, and load what came last of the few or many.
	placed int
	load   load
	fleet  *fleet
	// idle is a hub and an agent on which nothing is placed, state a hub with much.
	idle  *idleProcesses
	state *state
	// full is the hub with a whole fleet, once there is one.
	full *fullHub
	// upsynced is the hub of a location at which objects are created, once there is one.
	upsynced *upsyncHub
	// sides are the hub and the kube-apiserver of spaceAPI.
	sides [2]*apiSide
}

// start starts what all measurements need.
func (b *bench) start() error {
	b.cluster = env.StartCluster(b.t, "target", env.APIOnly())
	b.hub = env.StartHub(b.t)
	env.Orrery(b.t, b.hub.Kubeconfig, "space", "create", spaceName)
	for to, config := range map[**client]string{&b.root: "spaces/root", &b.space: "spaces/" + spaceName} {
		c, err := newClient(b.hub.PathConfig(config))
		if err != nil {
			return err
		}
		*to = c
	}
	var err error
	if b.target, err = newClient(b.cluster.Config); err != nil {
		return err
	}
	if err := b.target.create(b.ctx, "/api/v1/namespaces", namespaceOf(bareNamespace)); err != nil {
		return err
	}
	const writers = 16
	if b.writers, err = newClients(b.ctx, b.hub.PathConfig("spaces/"+spaceName), writers); err != nil {
		return err
	}
	join, err := addLocation(b.ctx, b.root, site)
	if err != nil {
		return err
	}
	if err := b.startLink(join.CA); err != nil {
		return err
	}
	join.Hub = "https://" + b.link.Address
	b.agent = env.StartAgent(b.t, site, join.Encode(), b.cluster.AgentKubeconfig)
	b.fleet = newFleet(b)
	if err := b.startCalm(); err != nil {
		return err
	}
	return b.startState()
}

// startState starts the hub that is to be filled.
func (b *bench) startState() error {
	own, err := b.startOwn(stateSpace(0))
	if err != nil {
		return err
	}
	b.state = &state{growth: growth{bench: own}}
	if b.state.whole, err = newClient(own.hub.PathConfig("")); err != nil {
		return err
	}
	own.writers = []*client{own.space, own.space, own.space, own.space}
	return nil
}

// siteLabel is on each location, with its name.
const siteLabel = "site"

// addLocation makes a location and returns how its agent joins.
func addLocation(ctx context.Context, root *client, name string) (wire.Join, error) {
	location := encoded(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Location",
		"metadata": map[string]any{"name": name, "labels": map[string]string{siteLabel: name}},
	})
	return joinNew(ctx, root, name, location)
}

// joinNew makes a location, and returns how its agent joins.
func joinNew(ctx context.Context, root *client, name string, location []byte) (wire.Join, error) {
	if err := root.create(ctx, locationsPath, location); err != nil {
		return wire.Join{}, err
	}
	answer, err := root.request(ctx, http.MethodPost, locationsPath+"/"+name+"/token", jsonBody, []byte("{}"))
	if err != nil {
		return wire.Join{}, err
	}
	return wire.ParseJoin(gjson.GetBytes(answer, "status.token").String())
}

// namespace makes a namespace in the space and at the target, so that no object
// has to wait for it.
func (b *bench) namespace(name string) error {
	body := namespaceOf(name)
	return errors.Join(
		b.space.create(b.ctx, "/api/v1/namespaces", body),
		b.target.create(b.ctx, "/api/v1/namespaces", body),
	)
}

// place places what is in a namespace at the site, and waits until n objects are
// there.
func (b *bench) place(namespace, resource string, n int, status v1alpha1.ReturnStatus) error {
	if err := b.space.create(b.ctx, placementsPath, placement(namespace, namespace, resource, named(site), status)); err != nil {
		return err
	}
	b.placed += n
	return b.waitApplied(namespace, n, n)
}

// pairTime bounds what each of many pairs takes at one cluster.
const pairTime = 20 * time.Millisecond

// waitApplied waits until the counts of a Placement report all its objects as applied.
func (b *bench) waitApplied(name string, objects, pairs int) error {
	return b.settledAt(b.space, placementsPath+"/"+name, objects, pairs)
}

// settledAt is settled of the placement at a client's path.
func (b *bench) settledAt(c *client, path string, objects, pairs int) error {
	// A simulated agent that failed reports nothing any more.
	return eventuallyWithin(b.fleet.ctx, timeLimit+time.Duration(pairs)*pairTime, fmt.Sprintf("the counts of the placement at %q", path), func() error {
		text, err := c.get(b.ctx, path)
		if err != nil {
			return err
		}
		var p v1alpha1.Placement
		if err := json.Unmarshal(text, &p); err != nil {
			return err
		}
		s := p.Status
		if int(s.Objects) != objects || int(s.Assigned) != pairs || int(s.Applied) != pairs || !isSynced(s.Conditions, pairs) {
			return fmt.Errorf("of %d objects and %d pairs it has %d and %d, %d applied, %d failed: %v",
				objects, pairs, s.Objects, s.Assigned, s.Applied, s.Failed, s.Errors)
		}
		return nil
	})
}

// isSynced reports whether a Placement is Synced, or selects nothing as it should.
func isSynced(conditions []metav1.Condition, pairs int) bool {
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionSynced)
	if c == nil || c.Status == metav1.ConditionTrue {
		return c != nil
	}
	return pairs == 0 && (c.Reason == v1alpha1.ReasonNoObjects || c.Reason == v1alpha1.ReasonNoLocations)
}

// revision is that of the hub's log.
func (b *bench) revision() (int64, error) {
	list, err := b.space.get(b.ctx, "/api/v1/namespaces?limit=1")
	return gjson.GetBytes(list, "metadata.resourceVersion").Int(), err
}

// startLink connects the agent of the site to the hub over a link that counts bytes. The link can lead to a
// proxy that reads the messages.
func (b *bench) startLink(ca string) error {
	transport, err := rest.TransportFor(&rest.Config{Host: b.hub.URL, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)}})
	if err != nil {
		return err
	}
	b.front, err = startFront(b.t, b.hub.URL, transport, 0, b.hub.Certificate())
	b.link = env.StartLink(b.t, b.hub.URL)
	return err
}
