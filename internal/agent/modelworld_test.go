package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// world is a hub, a cluster, an agent between them, and what the model knows.
type world struct {
	places
	t       *testing.T
	dir     string
	hub     *center
	cluster *cluster
	lives   int
	telling sync.Mutex
	story   []string

	agent  *Agent
	line   *lifeline
	cancel context.CancelFunc
	ended  chan struct{}
	file   *os.File // that of the store
	secret []byte   // by which the store is encrypted; nil: it is not
	full   bool     // it cannot be written
	corpse string   // the directory with the store as it was when the agent died
	// outdone is set when the agent has ended since its store is older than the cluster. older is
	// the directory with a copy of the store; empty: there is none.
	outdone atomic.Bool
	older   string

	// The following fields are guarded by the cluster's lock.

	// sources are all renderings there ever were, by digest, and allPuts all puts, by leaf.
	sources map[wire.Sum]map[string]string
	allPuts map[wire.Sum]*wire.Put
	// allowed are the leaves that may be applied of a key, gone are keys that the
	// location need not have; both since the last time that all was settled.
	allowed map[string]map[wire.Sum]bool
	gone    map[string]bool
	frozen  bool
	bad     []string
	// known are the keys of which the hub has had a report, and not since then that nothing
	// is left.
	known map[string]bool
	// believed is the desired content at the last settled time.
	believed map[string]store.Want
	// forgot reports whether the agent may have lost which objects it must orphan.
	forgot bool
	// lost reports whether the store was lost once, and with it data that neither the
	// desired objects nor the reports contain.
	lost bool
	// logs are the logs that the agent may follow, since the last settled time.
	logs []timeline
	// settling is since when it is waited for that all settles.
	settling time.Time
	seq      int
}

func newWorld(t *testing.T, seed int, dir string) *world {
	return newWorldOf(t, seed, dir, key.Same)
}

// newWorldOf is a world with a location that has places of its own.
func newWorldOf(t *testing.T, seed int, dir string, p key.Placing) *world {
	w := &world{
		places: placesOf(p), t: t, dir: dir,
		hub:     newCenter(rand.New(rand.NewPCG(uint64(seed), 2))),
		cluster: newCluster(rand.New(rand.NewPCG(uint64(seed), 3))),
		sources: map[wire.Sum]map[string]string{}, allPuts: map[wire.Sum]*wire.Put{},
		allowed: map[string]map[wire.Sum]bool{}, gone: map[string]bool{}, believed: map[string]store.Want{},
		known: map[string]bool{},
	}
	w.hub.settings.Namespaces = string(p)
	if seed%2 == 1 {
		w.secret = []byte("a key from outside of the volume")
	}
	w.cluster.checkChange = w.checkChange
	w.start(filepath.Join(dir, "0"))
	w.hub.wrote, w.hub.confirmed, w.hub.took = w.recordHubState, w.confirmed, w.noteReport
	w.logNow(true)
	return w
}

func (w *world) tell(format string, args ...any) {
	w.telling.Lock()
	defer w.telling.Unlock()
	w.story = append(w.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// start starts an agent on a directory.
func (w *world) start(dir string) {
	w.line = &lifeline{cluster: w.cluster, last: -1}
	w.line.die = func() { w.corpse = w.snapshot() }
	log := quiet
	if os.Getenv("ORRERY_TRACE") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	target, err := kubeclient.New(&rest.Config{Host: "http://cluster", Transport: w.line}, "test", 3, func(string, int) {}, log)
	if err != nil {
		w.t.Fatal(err)
	}
	a := &Agent{
		config: Config{Join: wire.Join{Hub: "https://hub", Location: "paris"}, Target: &rest.Config{}, DataDir: dir, Workers: 3},
		log:    log, metrics: newMetrics(), ready: make(chan struct{}), engine: worklist.New(), target: target,
		hub: hubclient.Over(spoke{center: w.hub, dead: &w.line.dead}, wire.Join{Hub: "https://hub", Location: "paris"}, "test", key.Shard{}),
	}
	if a.store, err = store.OpenWith(bolt.Options{
		NoSync: true, NoGrowSync: true, Timeout: 2 * time.Second, FreelistType: bolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
			w.file, err = os.OpenFile(name, flag, mode)
			return w.file, err
		},
	}, dir, "paris", w.secret, log); err != nil {
		w.t.Fatal(err)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "*.corrupt-*")); err != nil || len(aside) > 0 {
		w.bad = append(w.bad, "a store that nothing has harmed was set aside")
	}
	w.full = false
	a.build(key.Shard{})
	if err := a.load(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.agent, w.cancel, w.ended = a, cancel, make(chan struct{})
	go func() {
		defer close(w.ended)
		if err := a.work(ctx); errors.Is(err, errOlder) {
			w.outdone.Store(true)
		} else if err != nil && ctx.Err() == nil {
			w.t.Errorf("the agent ended: %v", err)
		}
		<-ctx.Done()
		if err := a.store.Close(); err != nil {
			w.t.Error(err)
		}
	}()
	<-a.Ready()
}

// anew has the agent begin with a new store if it has ended since its store is older than the
// cluster.
func (w *world) anew() {
	if w.outdone.Swap(false) {
		w.lose(func() {})
	}
}

// snapshot copies the store as it is on disk.
func (w *world) snapshot() string {
	defer func(file *os.File) { w.file = file }(w.file) // the copy is opened like the store
	w.lives++
	dir := filepath.Join(w.dir, fmt.Sprint(w.lives))
	if err := os.Mkdir(dir, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := w.agent.store.Copy(filepath.Join(dir, store.File)); err != nil {
		w.t.Fatal(err)
	}
	return dir
}

// stop ends the agent: as it should be, or by kill -9.
func (w *world) stop(clean bool) (dir string) {
	w.cluster.mu.Lock()
	dir = w.agent.config.DataDir
	switch {
	case w.line.dead.Load():
		dir = w.corpse
	case !clean:
		dir = w.snapshot()
		w.line.dead.Store(true)
	}
	w.cluster.wake()
	w.cluster.mu.Unlock()
	w.hub.mu.Lock()
	w.hub.say()
	w.hub.mu.Unlock()
	w.cancel()
	<-w.ended
	return dir
}
