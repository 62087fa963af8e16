package main

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/env"
)

const throttledSite = "throttled"

// throttledTarget has an agent whose target works on few requests at once and
// refuses the others, with 429 and Retry-After, as kube-apiserver does without
// Priority and Fairness. The refusals are made by a front before the cluster,
// since kube-apiserver makes none for the users that clusters here have. The clock
// is that of fullSync; the rate is compared with that of a bare client of as many
// workers as the target works for, which is never refused.
func (b *bench) throttledTarget() error {
	const namespace = "throttled"
	n, room := b.size.throttled, b.size.room
	if err := b.namespace(namespace); err != nil {
		return err
	}
	kubeconfig, front, err := b.throttledKubeconfig(room)
	if err != nil {
		return err
	}
	allowed, err := b.bareRound(n, "-workers", fmt.Sprint(room))
	if err != nil {
		return fmt.Errorf("as many workers as are allowed: %w", err)
	}
	join, err := addLocation(b.ctx, b.root, throttledSite)
	if err != nil {
		return err
	}
	agent := env.StartAgent(b.t, throttledSite, join.Encode(), kubeconfig)
	defer agent.Stop()
	if err := b.fill(namespace, n); err != nil {
		return err
	}
	w, err := b.target.watch(b.ctx, configMaps(namespace))
	if err != nil {
		return err
	}
	defer w.close()
	front.refusals.Store(0)
	start := time.Now()
	if err := b.space.create(b.ctx, placementsPath,
		placement(namespace, namespace, "configmaps", named(throttledSite), v1alpha1.ReturnStatusNone)); err != nil {
		return err
	}
	last, err := w.count(b.ctx, "ADDED", n)
	if err != nil {
		return err
	}
	refusals := front.refusals.Load()
	if err := b.settled(namespace, n, n); err != nil {
		return err
	}
	took := last.Sub(start)
	b.report.set("throttle.rate", allowed.took.Seconds()/took.Seconds(), "%d objects in %.2f s; bare client with %d workers %.2f s",
		n, took.Seconds(), room, allowed.took.Seconds())
	b.report.set("throttle.refused", float64(refusals)/float64(n), "%d refusals; %d requests at once are let through; in the end all is applied", refusals, room)
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
