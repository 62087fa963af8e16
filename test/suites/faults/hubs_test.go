package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/ports"
	"orrery.dev/orrery/test/support/seeds"
	"orrery.dev/orrery/test/support/world"
)

// requestTimeout bounds a request. Tests repeat it, since a hub may be stopped meanwhile.
const requestTimeout = 20 * time.Second

// pulses are the timeouts between hubs, agents and the load balancer.
type pulses struct {
	// heartbeat and lease are flags of hubs; other hubs take over after the lease. check is the
	// timeout of the health checks of the load balancer.
	heartbeat, lease, check time.Duration
}

var (
	// hurried is for tests that stop hubs without ending them; others have to detect it within seconds.
	hurried = pulses{heartbeat: heartbeat, lease: 3 * time.Second, check: 5 * time.Second}
	// patient is for tests that only restart hubs: no session or lease may expire meanwhile, however
	// busy the machine is.
	patient = pulses{heartbeat: 5 * time.Second, lease: time.Minute, check: time.Minute}
)

// hubs are hubs behind a load balancer that share an etcd of three members, with one edge.
type hubs struct {
	*edge
	pulses pulses
	etcd   *env.EtcdCluster
	all    []*env.Hub
	// links connect the last hub to the members of etcd.
	links []*env.Link
	// balanced is the client configuration of the space through the load balancer.
	balanced *rest.Config
	began    time.Time
	// random decides which faults happen, and in which order.
	random *rand.Rand

	// wrote are the names of the objects whose creation a hub acknowledged. The writer owns it until
	// end returns.
	wrote []string
	end   func()
}

// newHubs starts n hubs. If change is not nil, it is called for each hub while the hub is stopped.
func newHubs(t *testing.T, n int, pulses pulses, change func(*env.Hub)) *hubs {
	t.Helper()
	h := &hubs{pulses: pulses, etcd: env.StartEtcdCluster(t, 3), random: seeds.Rand(t, 1)}
	balancer := ports.Reserve(t)
	common := []string{"--heartbeat", pulses.heartbeat.String(), "--hub-lease", pulses.lease.String(), "--advertise", "https://" + balancer}
	for i := range n {
		flags := h.etcd.Flags()
		if i == n-1 {
			var urls []string
			for _, m := range h.etcd.Members {
				link := env.StartLink(t, m.URL)
				h.links = append(h.links, link)
				urls = append(urls, "https://"+link.Address)
			}
			flags = h.etcd.Flags(urls...)
		}
		flags = append(flags, common...)
		if i == 0 {
			h.all = append(h.all, env.StartHub(t, flags...))
		} else {
			h.all = append(h.all, h.all[0].StartSibling(flags...))
		}
		if change != nil {
			h.all[i].Stop()
			change(h.all[i])
			h.all[i].Start()
		}
	}
	config := fmt.Sprintf("listen hub\n  mode tcp\n  bind %s\n  option httpchk GET /readyz\n  timeout check %dms\n", balancer, pulses.check.Milliseconds())
	for i, hub := range h.all {
		config += fmt.Sprintf("  server hub%d %s check check-ssl verify none inter 2s downinter 500ms fall 1 rise 1 on-marked-down shutdown-sessions\n", i, strings.TrimPrefix(hub.URL, "https://"))
	}
	env.StartBalancer(t, balancer, config)
	h.edge = edgeOf(t, world.ForHub(t, h.all[0]), nil)
	h.balanced = h.all[0].PathConfig("spaces/" + spaceName)
	h.balanced.Host = strings.Replace(h.balanced.Host, strings.TrimPrefix(h.all[0].URL, "https://"), balancer, 1)
	h.space = world.Dynamic(t, h.balanced)
	h.began = time.Now()
	return h
}

// write creates objects one after the other through the balancer until the returned function
// is called. What is not answered is written again by its name, so nothing is there twice.
func (h *hubs) write() {
	ctx, cancel := context.WithCancel(h.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("w-%05d", i)
			for ctx.Err() == nil {
				within, done := context.WithTimeout(ctx, requestTimeout)
				_, err := h.source().Create(within, configMap(name, "1"), metav1.CreateOptions{})
				done()
				if err == nil || apierrors.IsAlreadyExists(err) {
					h.wrote = append(h.wrote, name)
					break
				}
				idle(ctx, 100*time.Millisecond)
			}
			idle(ctx, 50*time.Millisecond)
		}
	})
	var once sync.Once
	h.end = func() { once.Do(func() { cancel(); work.Wait() }) }
	h.t.Cleanup(h.end)
}

func idle(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// follows shows that a change comes to the target, whatever hub the agent is at.
func (h *hubs) follows(value string) {
	h.t.Helper()
	env.Eventually(h.t, soon, func() error {
		within, done := context.WithTimeout(h.t.Context(), requestTimeout)
		defer done()
		_, err := h.source().Apply(within, "x", configMap("x", value), metav1.ApplyOptions{FieldManager: "test", Force: true})
		return err
	})
	h.waitFor("x", value)
}

// ready waits until a hub is ready, or until it is not ready.
func ready(t *testing.T, hub *env.Hub, want bool) {
	t.Helper()
	timeout := requestTimeout
	if !want { // a hub that does not answer is not ready either
		timeout = 2 * time.Second
	}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // the request only reads whether the hub is ready
	env.Eventually(t, soon, func() error {
		resp, err := client.Get(hub.URL + "/readyz")
		if err == nil {
			err = resp.Body.Close()
			if (resp.StatusCode == http.StatusOK) != want {
				err = fmt.Errorf("/readyz: %s", resp.Status)
			}
		}
		if !want && resp == nil {
			return nil
		}
		return err
	})
}

// leader is the member of etcd that leads.
func (h *hubs) leader() *env.EtcdMember {
	h.t.Helper()
	var leads *env.EtcdMember
	env.Eventually(h.t, soon, func() error {
		for _, m := range h.etcd.Members {
			if m.Running() && m.Leads() {
				leads = m
				return nil
			}
		}
		return errors.New("no member of etcd leads")
	})
	return leads
}

// faults are what can happen to hubs and their log, and is over when a function returns.
func (h *hubs) faults() map[string]func() {
	last := h.all[len(h.all)-1]
	return map[string]func(){
		"a hub is killed": func() {
			hub := h.all[h.random.IntN(len(h.all))]
			hub.Kill()
			h.follows("killed hub " + time.Now().String())
			hub.Start()
		},
		"a hub and the leader of etcd stand still": func() { // for longer than its lease
			hub, m := h.all[h.random.IntN(len(h.all))], h.leader()
			hub.Signal(syscall.SIGSTOP)
			m.Signal(syscall.SIGSTOP)
			began := time.Now()
			h.follows("stopped " + began.String())
			idle(h.t.Context(), h.pulses.lease*3/2-time.Since(began))
			m.Signal(syscall.SIGCONT)
			hub.Signal(syscall.SIGCONT)
			ready(h.t, hub, true)
		},
		"a hub is replaced": func() {
			h.all[h.random.IntN(len(h.all))].Restart()
		},
		"the leader of etcd is killed": func() {
			m := h.leader()
			m.Kill()
			h.follows("killed etcd " + time.Now().String())
			m.Start()
		},
		"a hub is cut off from etcd": func() {
			for _, link := range h.links {
				link.Cut()
			}
			ready(h.t, last, false)
			h.follows("cut hub " + time.Now().String())
			for _, link := range h.links {
				link.Heal()
			}
			ready(h.t, last, true)
		},
		"etcd has no majority": func() {
			two := h.etcd.Members[:2]
			for _, m := range two {
				m.Kill()
			}
			for _, hub := range h.all {
				ready(h.t, hub, false)
			}
			h.waitForStatus(func(s agent.Status) bool { return !s.Connected })
			for _, m := range two {
				m.Begin()
			}
			for _, hub := range h.all {
				ready(h.t, hub, true)
			}
		},
	}
}

// verify checks the guarantees after the last fault: every hub serves each acknowledged object, the
// target has each once, and nothing was removed or written again in the target.
func (h *hubs) verify() {
	h.t.Helper()
	h.end()
	h.t.Logf("%d writes were acknowledged", len(h.wrote))
	for _, hub := range h.all {
		there := map[string]bool{}
		var list *unstructured.UnstructuredList
		env.Eventually(h.t, soon, func() (err error) { // after the last fault, the hub may still be behind the log
			list, err = world.Dynamic(h.t, hub.PathConfig("spaces/"+spaceName)).Resource(world.ConfigMaps).Namespace(namespace).List(h.t.Context(), metav1.ListOptions{LabelSelector: "for=edge"})
			return err
		})
		for _, o := range list.Items {
			there[o.GetName()] = true
		}
		for _, name := range h.wrote {
			if !there[name] {
				h.t.Errorf("%s was acknowledged and is not at %s", name, hub.URL)
			}
		}
	}
	env.Eventually(h.t, soon, func() error {
		versions := h.versions()
		for _, name := range h.wrote {
			if _, ok := versions[name]; !ok {
				return fmt.Errorf("%s is not at the target", name)
			}
		}
		return nil
	})
	h.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Queued == 0 }) // otherwise a write may be in progress
	h.connected(metav1.ConditionTrue)
	if n := h.deletions(h.began); n > 0 {
		h.t.Errorf("%d deletions at the target", n)
	}
	before := h.versions()
	h.follows("the end")
	for name, old := range before {
		if now := h.versions()[name]; name != "x" && now != old {
			h.t.Errorf("%s was written again at the target: %v, %v", name, old, now)
		}
	}
}

// TestHubs shows that hubs behind a load balancer tolerate the loss of any one hub or member of
// etcd: agents and clients move to another hub, no write is lost or applied twice, nothing is
// removed in the target, and the location stays connected. make soak uses three hubs and more
// rounds.
func TestHubs(t *testing.T) {
	t.Parallel()
	rounds, n := seeds.Count(t, 1), 2
	if rounds > 1 {
		n = 3
	}
	h := newHubs(t, n, hurried, nil)
	h.follows("begin")
	h.write()
	for range rounds {
		all := h.faults()
		names := slices.Sorted(maps.Keys(all))
		h.random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, name := range names {
			began := time.Now()
			all[name]()
			h.follows("after: " + name)
			t.Logf("%s: over after %s", name, time.Since(began).Round(time.Millisecond))
		}
	}
	h.verify()
}
