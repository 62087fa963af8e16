package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// spaceAPI creates ConfigMaps of 2 KB with parallel clients, JSON over TLS, each over a connection of its own.
// It uses a space of a new hub and a new stock kube-apiserver, in alternating rounds. Then it applies a change
// to each object server-side. Values are medians over rounds of the ratio of rates. Neither etcd syncs to disk:
// the cluster's is started with this option, and so is the hub's embedded one. The stock server's audit log is
// off, as by default. The CPU of a create is the total CPU of all creates, with etcd, divided by their number.
func (b *bench) spaceAPI() error {
	sides, err := b.apiSides()
	if err != nil {
		return err
	}
	b.sides = sides
	for _, s := range sides { // both have compiled, grown and cached what they will need
		if _, err := s.round(b.ctx, "warm", b.size.apiObjects/10); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		s.created, s.creates = 0, 0
	}
	var ratios, own [2][]float64
	for round := range b.size.apiRounds {
		var rates [2][2]float64 // of each side, creates and applies
		for i := range sides {
			side := (i + round) % len(sides)
			if rates[side], err = sides[side].round(b.ctx, fmt.Sprintf("round-%d", round), b.size.apiObjects); err != nil {
				return fmt.Errorf("%s: %w", sides[side].name, err)
			}
		}
		for what := range ratios {
			ratios[what] = append(ratios[what], rates[0][what]/rates[1][what])
			own[what] = append(own[what], rates[0][what])
		}
		b.t.Logf("creates and applies a second: hub %.0f and %.0f, stock kube-apiserver %.0f and %.0f", rates[0][0], rates[0][1], rates[1][0], rates[1][1])
	}
	for what, id := range []string{"api.create", "api.apply"} {
		b.report.add(id, result{value: median(ratios[what]), samples: ratios[what],
			comment: fmt.Sprintf("%.0f/s, of %d", median(own[what]), b.size.apiObjects)})
	}
	hub, stock := sides[0].perCreate(), sides[1].perCreate()
	b.report.set("api.create.cpu", hub.Seconds()/max(stock, time.Microsecond).Seconds(), "%s for a create; stock %s", hub, stock)
	return nil
}

// apiSide is one server under load.
type apiSide struct {
	name    string
	process *env.Process
	// etcd is a process of its own; nil: it is in the server's.
	etcd    *env.Process
	clients []*client
	// objects are how many are in namespace default.
	objects int
	// created is the CPU that as many creates took.
	created time.Duration
	creates int
}

// cpu is what the server has taken, with its etcd.
func (s *apiSide) cpu() time.Duration {
	took := s.process.Usage().CPU
	if s.etcd != nil {
		took += s.etcd.Usage().CPU
	}
	return took
}

// perCreate is the CPU of one create.
func (s *apiSide) perCreate() time.Duration {
	return (s.created / time.Duration(max(s.creates, 1))).Round(time.Microsecond)
}

// apiSides are the hub and the stock kube-apiserver.
func (b *bench) apiSides() ([2]*apiSide, error) {
	sides := [2]*apiSide{{name: "hub"}, {name: "stock kube-apiserver"}}
	hub := env.StartHub(b.t, "--unsafe-no-fsync")
	env.Orrery(b.t, hub.Kubeconfig, "space", "create", spaceName)
	stock := env.StartCluster(b.t, "stock", env.APIOnly(), env.APIServerArgs("--audit-log-path=", "--audit-policy-file="))
	sides[0].process, sides[1].process, sides[1].etcd = hub.Process, stock.APIServer, stock.Etcd
	var err error
	if sides[0].clients, err = newClients(b.ctx, hub.PathConfig("spaces/"+spaceName), b.size.apiClients); err != nil {
		return sides, err
	}
	sides[1].clients, err = newClients(b.ctx, stock.Config, b.size.apiClients)
	return sides, err
}

// round creates n objects and then applies a change to each; it returns both
// rates per second.
func (s *apiSide) round(ctx context.Context, name string, n int) (rates [2]float64, err error) {
	const size = 2 << 10
	path := configMaps("default")
	created, changed := make([][]byte, n), make([][]byte, n)
	for i := range n {
		object := name + "-" + nameOf(i)
		created[i], changed[i] = configMap("default", object, size, "first"), configMap("default", object, size, "second")
	}
	start, before := time.Now(), s.cpu()
	if err := share(ctx, s.clients, n, func(ctx context.Context, c *client, i int) error {
		return c.create(ctx, path, created[i])
	}); err != nil {
		return rates, err
	}
	rates[0] = float64(n) / time.Since(start).Seconds()
	s.objects, s.created, s.creates = s.objects+n, s.created+s.cpu()-before, s.creates+n
	start = time.Now()
	if err := share(ctx, s.clients, n, func(ctx context.Context, c *client, i int) error {
		return c.do(ctx, http.MethodPatch, path+"/"+name+"-"+nameOf(i)+"?fieldManager=bench&force=true", applyPatch, changed[i])
	}); err != nil {
		return rates, err
	}
	rates[1] = float64(n) / time.Since(start).Seconds()
	return rates, nil
}
