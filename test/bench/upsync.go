package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

// upsyncHub is a hub with one location, at whose real kube-apiserver objects are created that a space requests
// by upsync.
type upsyncHub struct {
	ownHub
	target *client
	agent  *env.Agent
	// view is what the location reports, as the space sees it.
	view *watch
	// idleMemory is RssAnon of the agent before anything was asked for.
	idleMemory int64
}

// upsyncNamespace has the ConfigMaps that are created at the location.
const upsyncNamespace = "upsynced"

// requestUpsync measures the time and memory until objects that are created at a location are in the view of
// reports. The agent then has no work until followUpsync.
func (b *bench) requestUpsync() error {
	own, err := b.newOwnHub(stateSpace(0))
	if err != nil {
		return err
	}
	b.upsynced = &upsyncHub{ownHub: own, target: b.target}
	return b.upsynced.take("upsync", phase{"objects", b.upsynced.start}, phase{"ask", b.upsynced.request}, phase{"hub", b.upsynced.hubMemory})
}

// followUpsync measures the cost of keeping the reports and of following changes, and ends the hub.
func (b *bench) followUpsync() error {
	h := b.upsynced
	if h == nil {
		return errors.New("nothing has been asked for")
	}
	defer h.end()
	if err := h.take("upsync", phase{"agent", h.agentMemory}, phase{"idle", h.idle}, phase{"changes", h.changes}); err != nil {
		return err
	}
	h.view.close()
	h.agent.Stop()
	return nil
}

// start connects a location, at whose cluster ConfigMaps are created that no space requests.
func (h *upsyncHub) start() error {
	b := h.bench
	if err := b.makeSpaces(1); err != nil {
		return err
	}
	join, err := addLocation(b.ctx, b.root, upsyncNamespace)
	if err != nil {
		return err
	}
	h.agent = env.StartAgent(b.t, upsyncNamespace, join.Encode(), b.cluster.AgentKubeconfig)
	if err := h.target.create(b.ctx, "/api/v1/namespaces", namespaceOf(upsyncNamespace)); err != nil {
		return err
	}
	if err := share(b.ctx, make([]struct{}, connecting), b.size.upsynced, func(ctx context.Context, _ struct{}, i int) error {
		return h.target.create(ctx, configMaps(upsyncNamespace), configMap(upsyncNamespace, nameOf(i), 1<<10, "upsynced"))
	}); err != nil {
		return err
	}
	if _, err := h.grown(1); err != nil {
		return err
	}
	h.idleMemory = h.agent.Usage().RSSAnon
	return nil
}

// request creates a Placement that requests the ConfigMaps, and waits until the view has all of them.
func (h *upsyncHub) request() error {
	b := h.bench
	reports, err := newClient(b.hub.PathConfig("views/reports/spaces/" + stateSpace(0) + "/locations/" + upsyncNamespace))
	if err != nil {
		return err
	}
	if h.view, err = reports.watch(b.ctx, configMaps(upsyncNamespace)); err != nil {
		return err
	}
	before, err := b.logged()
	if err != nil {
		return err
	}
	start := time.Now()
	if err := b.space.create(b.ctx, placementsPath, encoded(v1alpha1.Placement{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Placement"},
		ObjectMeta: metav1.ObjectMeta{Name: upsyncNamespace},
		Spec: v1alpha1.PlacementSpec{
			Locations: []v1alpha1.LocationSelector{named(upsyncNamespace)},
			Upsync:    []v1alpha1.Upsync{{Resources: []string{"configmaps"}, Namespaces: []string{upsyncNamespace}}},
		},
	})); err != nil {
		return err
	}
	arrived, err := h.view.count(b.ctx, "ADDED", b.size.upsynced)
	if err != nil {
		return err
	}
	if err := b.calmDown(); err != nil {
		return err
	}
	h.rest = time.Now()
	after, err := b.logged()
	if err != nil {
		return err
	}
	took := arrived.Sub(start).Seconds()
	revisions, kilobytes := after.since(before, float64(b.size.upsynced)/1000)
	b.report.set("upsync.time", took, "%d ConfigMaps of 1 KB, %.0f a second; for 1,000 %.0f revisions and %.0f KB of the log",
		b.size.upsynced, float64(b.size.upsynced)/took, revisions, kilobytes)
	return nil
}

// hubMemory reads what each has come to at the hub.
func (h *upsyncHub) hubMemory() error {
	b := h.bench
	each, err := h.grown(b.size.upsynced)
	if err != nil {
		return err
	}
	b.report.set("upsync.hub.memory", each, "%d objects of 1 KB, hub %s", b.size.upsynced, megabytes(h.last))
	return nil
}

// agentMemory reads the same at the agent, once it has been left alone.
func (h *upsyncHub) agentMemory() error {
	b := h.bench
	if !wait(b.ctx, b.size.idle-time.Since(h.rest)) {
		return b.ctx.Err()
	}
	used := h.agent.Usage().RSSAnon
	b.report.set("upsync.agent.memory", float64(used-h.idleMemory)/1e3/float64(b.size.upsynced), "%d objects of 1 KB, agent %s", b.size.upsynced, megabytes(used))
	return nil
}

// changes edits objects at the cluster, each once since one that changes again rests, one after
// the other, and times each until the view shows it.
func (h *upsyncHub) changes() error {
	b := h.bench
	all, err := b.timed(b.size.statuses, h.view, statusRest, func(i int) error {
		return h.target.patch(b.ctx, configMaps(upsyncNamespace)+"/"+nameOf(i), fmt.Sprintf(`{"data":{"value":"change-%d"}}`, i))
	}, func(e event, i int) bool {
		return gjson.GetBytes(e.object, "data.value").String() == "change-"+strconv.Itoa(i)
	})
	if err != nil {
		return err
	}
	b.latencies("upsync", all)
	return nil
}

// idle counts what is done while nothing changes.
func (h *upsyncHub) idle() error {
	b := h.bench
	if err := b.calmDown(); err != nil {
		return err
	}
	still, err := b.stillness()
	if err != nil {
		return err
	}
	b.report.set("upsync.requests", float64(len(still.requests)), "%d objects, %s", b.size.upsynced, still)
	b.report.set("upsync.revisions", float64(still.revisions), "")
	return nil
}
