package main

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

// timed makes n changes, each some time after the one before was seen, and returns for each
// the time from just before the request until w showed what came of it.
func (b *bench) timed(n int, w *watch, rest time.Duration, change func(i int) error, seen func(e event, i int) bool) ([]float64, error) {
	all := make([]time.Duration, 0, n)
	for i := range n {
		start := time.Now()
		if err := change(i); err != nil {
			return nil, err
		}
		arrived, err := w.until(b.ctx, fmt.Sprintf("change %d", i), func(e event) bool { return seen(e, i) })
		if err != nil {
			return nil, err
		}
		all = append(all, arrived.Sub(start))
		select {
		case <-time.After(rest):
		case <-b.ctx.Done():
			return nil, b.ctx.Err()
		}
	}
	return milliseconds(all), nil
}

// latencies sets the lines NAME.p50 and NAME.p99.
func (b *bench) latencies(name string, all []float64) {
	b.report.set(name+".p50", quantile(all, 0.5), "%d changes", len(all))
	b.report.set(name+".p99", quantile(all, 0.99), "longest %.1f ms", quantile(all, 1))
}

// editToTarget edits one ConfigMap in the space by JSON merge patches, one when
// the one before has arrived, and times each from just before the patch until a
// watch at the target shows it.
func (b *bench) editToTarget() error {
	const namespace = "edit"
	if err := b.namespace(namespace); err != nil {
		return err
	}
	if err := b.fill(namespace, 1); err != nil {
		return err
	}
	if err := b.place(namespace, "configmaps", 1, v1alpha1.ReturnStatusNone); err != nil {
		return err
	}
	w, err := b.target.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return err
	}
	defer w.close()
	all, err := b.timeEdits(w, namespace)
	if err != nil {
		return err
	}
	b.latencies("edit", all)
	return nil
}

// timeEdits edits the first ConfigMap of a namespace in the space, and times each
// edit from just before the request until the watch shows it.
func (b *bench) timeEdits(w *watch, namespace string) ([]float64, error) {
	return b.timed(b.size.edits, w, 0, func(i int) error {
		return b.space.patch(b.ctx, configMaps(namespace)+"/"+nameOf(0), fmt.Sprintf(`{"data":{"value":"edit-%d"}}`, i))
	}, func(e event, i int) bool {
		return gjson.GetBytes(e.object, "data.value").String() == "edit-"+strconv.Itoa(i)
	})
}

// statusRest is between two changes of a status.
const statusRest = 150 * time.Millisecond

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","labels":{"app":"web"}},"spec":{
"replicas":2,"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{
"containers":[{"name":"web","image":"registry.example/web:1"}]}}}}`

// statusToSpace changes the status of a Deployment at the target, as a controller there would, with a Placement
// that returns it and uses the default policy. It times each change from just before the request until a watch
// in the space returns it. It waits between changes, since changes in quick succession are combined.
func (b *bench) statusToSpace() error {
	const namespace = "status"
	if err := b.namespace(namespace); err != nil {
		return err
	}
	path := "/apis/apps/v1/namespaces/" + namespace + "/deployments"
	if err := b.space.create(b.ctx, path, []byte(deployment)); err != nil {
		return err
	}
	if err := b.place(namespace, "deployments", 1, v1alpha1.ReturnStatusRollup); err != nil {
		return err
	}
	w, err := b.space.watch(b.ctx, path)
	if err != nil {
		return err
	}
	defer w.close()
	if err := b.calmDown(); err != nil {
		return err
	}
	before, err := b.logged()
	if err != nil {
		return err
	}
	all, err := b.timed(b.size.statuses, w, statusRest, func(i int) error {
		return b.target.patch(b.ctx, path+"/web/status", fmt.Sprintf(`{"status":{"replicas":%d}}`, i+1))
	}, func(e event, i int) bool {
		return gjson.GetBytes(e.object, "status.replicas").Int() == int64(i+1)
	})
	if err != nil {
		return err
	}
	after, err := b.logged()
	if err != nil {
		return err
	}
	b.latencies("status", all)
	writes, bytes := after.since(before, float64(len(all))/1000)
	b.report.set("status.writes", writes, "the report, and the object in the space")
	b.report.set("status.bytes", bytes, "keys, values and what etcd keeps besides")
	return nil
}

// secondSite is a location in the cluster of the site, in namespaces of its own.
const secondSite = "second"

// addSecondSite makes the second location, and starts its agent. remove removes both, so that other
// measurements have one agent.
func addSecondSite(b *bench) (remove func(), err error) {
	l := v1alpha1.Location{Spec: v1alpha1.LocationSpec{Namespaces: v1alpha1.NamespacesPrefixed}}
	l.APIVersion, l.Kind, l.Name = v1alpha1.GroupVersion.String(), "Location", secondSite
	join, err := joinNew(b.ctx, b.root, secondSite, encoded(l))
	if err != nil {
		return nil, err
	}
	agent := env.StartAgent(b.t, secondSite, join.Encode(), b.cluster.AgentKubeconfig)
	return func() {
		agent.Stop()
		env.Orrery(b.t, b.hub.Kubeconfig, "location", "remove", secondSite)
	}, nil
}

// statusOfTwo changes the status of a Deployment at two locations at once, and times each change from
// just before the first request until a watch in the space shows both.
func statusOfTwo(b *bench) error {
	const name = "status-of-two"
	remove, err := addSecondSite(b)
	if err != nil {
		return err
	}
	defer remove()
	if err := b.namespace(name); err != nil {
		return err
	}
	path := "/apis/apps/v1/namespaces/" + name + "/deployments"
	if err := b.space.create(b.ctx, path, []byte(deployment)); err != nil {
		return err
	}
	if err := b.space.create(b.ctx, placementsPath, placement(name, name, "deployments", named(site, secondSite), v1alpha1.ReturnStatusRollup)); err != nil {
		return err
	}
	b.placed++
	if err := b.waitApplied(name, 1, 2); err != nil {
		return err
	}
	w, err := b.space.watch(b.ctx, path)
	if err != nil {
		return err
	}
	defer w.close()
	if err := b.calmDown(); err != nil {
		return err
	}
	atSecond := "/apis/apps/v1/namespaces/" + spaceName + "--" + name + "/deployments"
	// The space shows the least of both, so a smaller number is shown when the first one has changed.
	all, next := []float64{}, []int{2, 0}
	for range b.size.statuses {
		for _, ready := range next {
			took, err := b.timed(1, w, statusRest, func(int) error {
				status := fmt.Sprintf(`{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,"readyReplicas":%d}}`, ready)
				var group errgroup.Group
				for _, deployment := range []string{path, atSecond} {
					group.Go(func() error { return b.target.patch(b.ctx, deployment+"/web/status", status) })
				}
				return group.Wait()
			}, func(e event, _ int) bool {
				return gjson.GetBytes(e.object, "status.readyReplicas").Int() == int64(ready)
			})
			if err != nil {
				return err
			}
			if ready > 0 {
				all = append(all, took...)
			}
		}
	}
	b.latencies("statuses", all)
	return nil
}

// driftRepaired changes the data of one object after the other at the target, and
// times each from just before the request until a watch there shows the old
// value again. Each object is touched once: an agent repairs one that another
// client changes again ever more slowly.
func (b *bench) driftRepaired() error {
	const namespace = "drift"
	n := b.size.tamperings
	if err := b.namespace(namespace); err != nil {
		return err
	}
	if err := b.fill(namespace, n); err != nil {
		return err
	}
	if err := b.place(namespace, "configmaps", n, v1alpha1.ReturnStatusNone); err != nil {
		return err
	}
	w, err := b.target.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return err
	}
	defer w.close()
	all, err := b.timed(n, w, 0, func(i int) error {
		path := configMaps(namespace) + "/" + nameOf(i) + "?fieldManager=another"
		return b.target.do(b.ctx, http.MethodPatch, path, mergePatch, []byte(`{"data":{"value":"tampered"}}`))
	}, func(e event, i int) bool {
		return e.name == nameOf(i) && gjson.GetBytes(e.object, "data.value").String() == "wanted"
	})
	if err != nil {
		return err
	}
	b.latencies("drift", all)
	return nil
}
