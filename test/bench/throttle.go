package main

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
)

const throttledSite = "throttled"

// throttledTarget runs an agent whose target handles few requests at once and refuses the others, with 429 and
// Retry-After, like kube-apiserver without Priority and Fairness. A proxy before the cluster refuses them, since
// kube-apiserver refuses none for the users of these clusters. The clock is that of fullSync. The rate is
// compared with that of a bare client through the same proxy, with as many workers as the proxy allows, which is
// never refused.
//
// It does so with few objects, and then with many: a refused request waits for a second, which is as long as the
// whole round with few objects.
func (b *bench) throttledTarget() error {
	kubeconfig, front, err := b.throttledKubeconfig(b.size.room)
	if err != nil {
		return err
	}
	join, err := addLocation(b.ctx, b.root, throttledSite)
	if err != nil {
		return err
	}
	agent := env.StartAgent(b.t, throttledSite, join.Encode(), kubeconfig)
	defer agent.Stop()
	if err := b.throttledRound("throttle", throttledSite, b.size.throttled, kubeconfig, front); err != nil {
		return err
	}
	return b.throttledRound("throttle.many", throttledSite+"-many", b.size.throttledMany, kubeconfig, front)
}

// throttledRound has so many objects of a namespace placed at the throttled site, and reports how
// long they took below a name.
func (b *bench) throttledRound(name, namespace string, n int, kubeconfig string, front *front) error {
	if err := b.namespace(namespace); err != nil {
		return err
	}
	room := b.size.room
	allowed, err := b.bareRoundBy(kubeconfig, n, "-workers", fmt.Sprint(room))
	if err != nil {
		return fmt.Errorf("as many workers as are allowed: %w", err)
	}
	if err := b.fill(namespace, n); err != nil {
		return err
	}
	w, err := b.target.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return err
	}
	defer w.close()
	front.refusals.Store(0)
	busy, start := front.busy.Load(), time.Now()
	if err := b.space.create(b.ctx, placementsPath,
		placement(namespace, namespace, "configmaps", named(throttledSite), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	last, err := w.count(b.ctx, "ADDED", n)
	if err != nil {
		return err
	}
	took, refusals := last.Sub(start), front.refusals.Load()
	used := time.Duration(front.busy.Load()-busy).Seconds() / took.Seconds()
	if err := b.waitApplied(namespace, n, n); err != nil {
		return err
	}
	b.report.set(name+".rate", allowed.took.Seconds()/took.Seconds(), "%d objects in %.2f s; bare client with %d workers %.2f s; %.2f requests at once on average",
		n, took.Seconds(), room, allowed.took.Seconds(), used)
	b.report.set(name+".refused", float64(refusals)/float64(n), "%d refusals; %d requests at once are let through; in the end all is applied", refusals, room)
	return nil
}

// throttledKubeconfig is the agent's for the cluster behind a front that has room
// for some requests.
func (b *bench) throttledKubeconfig(room int) (string, *front, error) {
	config, err := clientcmd.LoadFromFile(b.cluster.AgentKubeconfig)
	if err != nil {
		return "", nil, err
	}
	// The agent's credentials pass through.
	transport, err := rest.TransportFor(&rest.Config{Host: b.cluster.Config.Host, TLSClientConfig: rest.TLSClientConfig{
		CAFile: b.cluster.Config.CAFile, CAData: b.cluster.Config.CAData,
	}})
	if err != nil {
		return "", nil, err
	}
	front, err := startFront(b.t, b.cluster.Config.Host, transport, room)
	if err != nil {
		return "", nil, err
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthority = front.server.URL, ""
		cluster.CertificateAuthorityData = front.certificate()
	}
	file := filepath.Join(b.t.TempDir(), "kubeconfig")
	return file, front, clientcmd.WriteToFile(*config, file)
}
