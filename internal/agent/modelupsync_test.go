package agent

import (
	"encoding/pem"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/protocol"
	"orrery.dev/orrery/test/support/seeds"
)

// TestModelUpsync plays random schedules of changes at a cluster, upsync requests, restarts and
// lost stores of the agent, and compares the reports at the hub with those that a naive reader of
// the cluster computes.
func TestModelUpsync(t *testing.T) {
	server := httptest.NewTLSServer(nil) // whose certificate will do
	server.Close()
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for i := range players {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds.All(t, 60) {
				if seed%players != i {
					continue
				}
				dir := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					w := newUpsyncWorld(t, seed, dir, ca)
					defer w.agent.Stop()
					if err := w.play(seed); err != nil {
						t.Errorf("%v\n%s", err, strings.Join(w.story, "\n"))
					}
				})
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// upsyncWorld is a hub with upsync requests, an agent, and its cluster.
type upsyncWorld struct {
	*protocol.Hub
	t       *testing.T
	rng     *rand.Rand
	cluster *cluster
	agent   *contracted
	placing key.Placing
	story   []string
	begun   time.Time
	lives   int
	putting map[string]wire.Policy
	// yields has, by path, the objects that are left to the location, with the UIDs of the placed ones.
	yields map[string]string
}

func newUpsyncWorld(t *testing.T, seed int, dir, ca string) *upsyncWorld {
	rng := rand.New(rand.NewPCG(uint64(seed), 7))
	w := &upsyncWorld{Hub: protocol.NewHub("paris"), t: t, rng: rng, cluster: newCluster(rand.New(rand.NewPCG(uint64(seed), 8))), begun: time.Now(), putting: map[string]wire.Policy{}, yields: map[string]string{}}
	w.cluster.littered, w.cluster.open = true, true
	if seed%2 == 0 {
		w.definition()
	}
	if seed%4 == 0 {
		w.placing = key.Prefixed
		w.Set(func(s *wire.Settings) { s.Namespaces = string(key.Prefixed) })
	}
	w.agent = &contracted{t: t, hub: w.Hub, dir: dir + "/0", ca: ca, line: &lifeline{cluster: w.cluster, last: -1}}
	w.agent.Start()
	return w
}

func (w *upsyncWorld) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%9.3f ", time.Since(w.begun).Seconds())+fmt.Sprintf(format, args...))
}

// wild returns identities of objects that are created at the cluster, or that have an owner there.
func (w *upsyncWorld) wild() []key.Identity {
	var all []key.Identity
	for _, ns := range []string{"a", "b", "s--a", "t--a", "s---a"} {
		for _, name := range []string{"m", "n"} {
			for _, r := range []key.Resource{key.ConfigMaps, key.NewResource("batch", "jobs"), key.NewResource("example.com", "widgets")} {
				all = append(all, key.Identity{Resource: r, Namespace: ns, Name: name})
			}
		}
	}
	return append(all, key.Identity{Resource: worklist.ClusterRoles, Name: "wild"}, key.Identity{Resource: key.Namespaces, Name: "s--new"})
}

func (w *upsyncWorld) play(seed int) error {
	lengths, stream := w.rng, uint64(100)
	for range 4 {
		for range 1 + lengths.IntN(12) {
			stream++
			w.rng = rand.New(rand.NewPCG(uint64(seed), stream)) // later steps do not depend on what this one draws
			w.step()
		}
		if err := w.awaitSettled(); err != nil {
			return fmt.Errorf("seed %d: %w", seed, err)
		}
	}
	return nil
}

func (w *upsyncWorld) step() {
	switch n := w.rng.IntN(20); {
	case n < 8:
		w.touch()
	case n < 11:
		w.changeRequests()
	case n < 13:
		w.place()
	case n == 13:
		w.definition()
	case n == 14:
		w.tell("the agent starts again")
		w.agent.Stop()
		w.agent.Start()
	case n == 15 && w.rng.IntN(2) == 0:
		w.lives++
		w.tell("the agent loses its store")
		w.agent.Stop()
		w.agent.dir = fmt.Sprintf("%s%d", w.agent.dir, w.lives)
		w.agent.Start()
	case n == 16:
		w.tell("the hub starts again")
		w.Restart()
	case n == 17:
		w.tell("a session is cut")
		w.HangUp()
	case n == 18:
		w.cluster.mu.Lock()
		w.cluster.weather = []weather{{}, {refuse: 30}, {breaks: 30}, {dark: true}, {hollow: true}, {lag: time.Second}}[w.rng.IntN(6)]
		w.cluster.epoch++
		w.cluster.compacted = w.cluster.revision * uint64(w.rng.IntN(2))
		r := w.wild()[w.rng.IntN(3)].Resource
		w.cluster.closed[r] = w.rng.IntN(2) == 0
		w.tell("weather %+v, %v closed: %v", w.cluster.weather, r, w.cluster.closed[r])
		w.cluster.wake()
		w.cluster.mu.Unlock()
	}
	<-time.After([]time.Duration{0, time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, time.Minute}[w.rng.IntN(6)])
}

// touch makes, changes or removes something at the cluster.
func (w *upsyncWorld) touch() {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	all := w.wild()
	id := all[w.rng.IntN(len(all))]
	if w.rng.IntN(2) == 0 {
		id.Namespace = w.placing.TargetIdentity(key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: "x"}}).Namespace
		if !servedKind(id.Resource).namespaced {
			return
		}
	}
	if !c.serves(id.Resource) {
		return
	}
	now := c.objects[id.String()]
	if now != nil && w.rng.IntN(3) == 0 {
		w.tell("delete %s", id)
		c.set(id.String(), nil)
		return
	}
	o := &thing{id: id, kind: servedKind(id.Resource).kind, foreign: true, fields: map[string]string{}, owners: map[owner]map[string]bool{{"wild", "Update"}: {}}}
	if now != nil {
		o = now.copy()
	}
	o.fields["data/v"] = fmt.Sprint(w.rng.IntN(3))
	switch w.rng.IntN(6) {
	case 0:
		o.status = fmt.Sprintf(`{"n":%d}`, w.rng.IntN(3))
	case 1, 2, 3:
		w.belong(o)
	case 4:
		w.mark(o)
	}
	w.tell("set %s: %v, controlled %v %v", id, o.fields, o.controlled, o.controller)
	c.set(id.String(), o)
}

// belong gives an object an owner in its namespace, or takes it.
func (w *upsyncWorld) belong(o *thing) {
	var all []*thing
	for _, k := range slices.Sorted(maps.Keys(w.cluster.objects)) {
		if p := w.cluster.objects[k]; p.id.Namespace == o.id.Namespace && p.id != o.id && p.id.Namespace != "" {
			all = append(all, p)
		}
	}
	if o.controlled = len(all) > 0 && w.rng.IntN(5) > 0; !o.controlled {
		return
	}
	p := all[w.rng.IntN(len(all))]
	if i := slices.IndexFunc(all, w.placed); i >= 0 && w.rng.IntN(3) == 0 {
		p = all[i]
	}
	version := "v1"
	if g := p.id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	o.controller = ownership.OwnerReference{APIVersion: version, Kind: p.kind, Name: p.id.Name, UID: p.uid, Controller: true}
}

// mark gives an object marks of another location, or of a part of them.
func (w *upsyncWorld) mark(o *thing) {
	if w.rng.IntN(2) == 0 {
		for p := range o.fields {
			if strings.HasPrefix(p, "metadata/") {
				delete(o.fields, p)
			}
		}
		return
	}
	set := func(kind, name, value string) { o.fields[fieldPath("metadata", kind, name)] = fmt.Sprintf("%q", value) }
	set("labels", v1alpha1.LocationLabel, "rome.0a1b2c3d")
	set("labels", v1alpha1.SpaceLabel, "z")
	if w.rng.IntN(2) == 0 { // a controller copied labels
		return
	}
	set("annotations", v1alpha1.SourceKindAnnotation, o.kind)
	set("annotations", v1alpha1.SourceUIDAnnotation, "u")
	set("annotations", v1alpha1.SourceNamespaceAnnotation, o.id.Namespace)
	set("annotations", v1alpha1.SourceNameAnnotation, o.id.Name)
}

// changeRequests changes the upsync requests.
func (w *upsyncWorld) changeRequests() {
	some := func(all ...string) (few []string) {
		for _, s := range all {
			if w.rng.IntN(2) == 0 {
				few = append(few, s)
			}
		}
		return few
	}
	w.Set(func(s *wire.Settings) {
		s.Upsync = nil
		for range w.rng.IntN(4) {
			u := wire.Upsync{Space: []string{"s", "t"}[w.rng.IntN(2)], Group: []string{"core", "batch", "example.com", "*"}[w.rng.IntN(4)]}
			u.Resources = append(some("configmaps", "jobs", "widgets", "clusterroles"), "namespaces")
			if w.rng.IntN(3) == 0 {
				u.Namespaces = append(some("a"), "b")
			}
			if w.rng.IntN(3) == 0 {
				u.Names = append(some("m"), "n")
			}
			s.Upsync = append(s.Upsync, u)
		}
		s.UpsyncObjects = []int{0, 0, 3, 1000}[w.rng.IntN(4)]
		w.tell("ask for %+v, at most %d", s.Upsync, s.UpsyncObjects)
	})
}

// place adds or removes a placed object, with its policy for associated objects.
func (w *upsyncWorld) place() {
	o := key.Object{Space: "s", Identity: key.Identity{Resource: key.ConfigMaps, Namespace: "a", Name: []string{"root", "other"}[w.rng.IntN(2)]}}
	if w.rng.IntN(5) == 0 {
		w.cluster.mu.Lock()
		object := w.cluster.objects[w.placing.TargetIdentity(o).String()]
		w.cluster.mu.Unlock()
		if object == nil || w.yields[o.Path()] != "" {
			return
		}
		w.tell("yield %s, %s", o.Path(), object.uid)
		delete(w.putting, o.Path())
		w.yields[o.Path()] = object.uid
		w.Write(wire.Frame{Hold: &wire.Hold{Key: o.Path(), UID: "uid-" + o.Name, Digest: digest("yield"), Reason: v1alpha1.ReasonUpsynced, Error: "it is asked for"}})
		return
	}
	if w.yields[o.Path()] != "" && w.rng.IntN(2) == 0 {
		return
	}
	delete(w.yields, o.Path())
	if w.rng.IntN(4) == 0 {
		w.tell("del %s", o.Path())
		delete(w.putting, o.Path())
		w.Del(o.Path(), wire.Deleted)
		return
	}
	policy := wire.Policy{Adopt: w.rng.IntN(2) == 0, Orphan: w.rng.IntN(4) == 0, Associated: []string{"", "batch/jobs", "batch/jobs\ncore/configmaps", "example.com/widgets"}[w.rng.IntN(4)]}
	w.tell("put %s with %+v", o.Path(), policy)
	w.putting[o.Path()] = policy
	w.PutWith(o.Path(), "uid-"+o.Name, fmt.Sprintf(`{"apiVersion":"v1","data":{"v":"%d"},"kind":"ConfigMap","metadata":{"name":%q,"namespace":"a"}}`, w.rng.IntN(2), o.Name), policy)
}

// definition makes or removes that of widgets.
func (w *upsyncWorld) definition() {
	c := w.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := c.objects[widgetsCRD.String()]; d != nil {
		w.tell("widgets are not served any more")
		if !d.terminating {
			c.remove(widgetsCRD.String())
		}
		return
	}
	w.tell("widgets are served")
	c.set(widgetsCRD.String(), &thing{id: widgetsCRD, kind: "CustomResourceDefinition", foreign: true, fields: map[string]string{}, owners: map[owner]map[string]bool{}})
	c.wake()
}

// awaitSettled ends all faults, and waits until the hub has the expected reports.
func (w *upsyncWorld) awaitSettled() error {
	w.cluster.mu.Lock()
	w.cluster.weather = weather{}
	clear(w.cluster.closed)
	w.cluster.mu.Unlock()
	w.tell("all is well")
	var wrong error
	for range 3000 {
		if wrong = w.compare(); wrong == nil {
			return nil
		}
		<-time.After(time.Second)
	}
	return wrong
}
