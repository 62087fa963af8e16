package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/seeds"
)

const (
	// sharedSchedules is the number of schedules of agents that share a location.
	sharedSchedules = 60
	// leaseLasts is how long their Leases last.
	leaseLasts = 6 * time.Second
)

// TestModelShards plays random schedules against one to three agents that share a location:
// edits, faults, kills, links that lose all responses, evictions, other numbers of shards,
// lost stores, second agents of a shard, and a hub that is away. No two ever act for one space,
// none writes what is not its own, and in the end all is as it is desired.
func TestModelShards(t *testing.T) {
	for i := range players {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			for seed := range seeds.All(t, sharedSchedules) {
				if seed%players != i {
					continue
				}
				if err := playShards(t, seed, sharedScheduleOf(seed)); err != nil {
					minimal := shrinkTo(sharedScheduleOf(seed), func(less []step) bool { return playShards(t, seed, less) != nil })
					t.Errorf("seed %d: %v\nshrunk to %d steps: %v", seed, err, len(minimal), playShards(t, seed, minimal))
				}
			}
		})
	}
}

func sharedScheduleOf(seed int) []step {
	rng := rand.New(rand.NewPCG(uint64(seed), 4))
	all := make([]step, 3+rng.IntN(12))
	for i := range all {
		all[i] = step{rng.IntN(1000), rng.IntN(1000), rng.IntN(1000), rng.IntN(1000)}
	}
	return all
}

// playShards plays a schedule and returns the violated promise, if any.
func playShards(t *testing.T, seed int, schedule []step) (wrong error) {
	dir := filepath.Join(t.TempDir(), "crew")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t, seed, dir, 1+seed%3)
		wrong = c.play(schedule)
		for len(c.lives) > 0 {
			c.stop(c.lives[0], false)
		}
		if wrong != nil {
			wrong = fmt.Errorf("%w\n%s", wrong, strings.Join(c.story, "\n"))
		}
	})
	return errors.Join(wrong, os.RemoveAll(dir))
}

// crew are the agents that share a location, their hub and their cluster, and what the model
// knows of them.
type crew struct {
	t       *testing.T
	dir     string
	rng     *rand.Rand
	hub     *center
	cluster *cluster
	spaces  []key.Space
	telling sync.Mutex
	story   []string

	// lives are the agents that run, and stores the directories of those that have last had a
	// number; made counts directories.
	lives  []*life
	stores map[int]string
	made   int

	// The following fields are guarded by the cluster's lock.

	bad []string
	// acted are those that have last acted for a space.
	acted map[key.Space]*life
	// ended are Jobs that have completed, as the hub knows, by key, and dropped the keys that
	// were not desired at a time since all was settled.
	ended   map[string]wire.Sum
	dropped map[string]bool
	seq     int
}

// life is one process of an agent.
type life struct {
	*Agent
	apart  apart
	line   *lifeline
	shard  key.Shard
	name   string
	corpse string
	cancel context.CancelFunc
	ended  chan struct{}
}

// newCrew is a location with so many agents, and with spaces that fall differently to those of
// two and to those of three.
func newCrew(t *testing.T, seed int, dir string, shards int) *crew {
	c := &crew{
		t: t, dir: dir, rng: rand.New(rand.NewPCG(uint64(seed), 5)), stores: map[int]string{},
		hub:     newCenter(rand.New(rand.NewPCG(uint64(seed), 2))),
		cluster: newCluster(rand.New(rand.NewPCG(uint64(seed), 3))),
		acted:   map[key.Space]*life{}, ended: map[string]wire.Sum{}, dropped: map[string]bool{},
	}
	have := map[[2]int]bool{}
	for i := 0; len(have) < 4; i++ {
		space := key.Space(fmt.Sprintf("s%d", i))
		if pair := [2]int{key.ShardOf(space, 2), key.ShardOf(space, 3)}; !have[pair] {
			have[pair] = true
			c.spaces = append(c.spaces, space)
		}
	}
	c.cluster.leases = map[string]*coordinationv1.Lease{}
	c.hub.shards, c.hub.took = shards, c.reported
	c.staff()
	return c
}

func (c *crew) tell(format string, args ...any) {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.story = append(c.story, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// fresh is a new directory.
func (c *crew) fresh() string {
	c.made++
	return filepath.Join(c.dir, fmt.Sprint(c.made))
}

// staff has an agent of each shard run that the hub wants, and none of another number.
func (c *crew) staff() {
	for i := 0; i < len(c.lives); {
		if l := c.lives[i]; l.shard.Total() != max(1, c.hub.shards) {
			c.stop(l, true)
		} else {
			i++
		}
	}
	for number := 1; number <= c.hub.shards; number++ {
		if c.running(number) == nil {
			c.start(number)
		}
	}
}

// running returns a running agent of the shard with a number; nil if none runs.
func (c *crew) running(number int) *life {
	for _, l := range c.lives {
		if l.shard.Number() == number {
			return l
		}
	}
	return nil
}

// start starts an agent of a number of the shards that the hub wants, on the store that the
// last one of the number had, unless that has reports that are not sent.
func (c *crew) start(number int) {
	if c.stores[number] == "" {
		c.stores[number] = c.fresh()
	}
	shard := key.NewShard(number, c.hub.shards)
	if err := c.begin(c.stores[number], shard); errors.Is(err, store.ErrUnsent) {
		c.tell("the store of %s has reports that are not sent: it begins with a new one", shard)
		c.stores[number] = c.fresh()
		err = c.begin(c.stores[number], shard)
		if err != nil {
			c.t.Error(err)
		}
	} else if err != nil {
		c.t.Error(err)
	}
}

// begin starts an agent on a directory.
func (c *crew) begin(dir string, shard key.Shard) error {
	c.seq++
	l := &life{shard: shard, name: fmt.Sprintf("agent %d of %s on %s", c.seq, shard, filepath.Base(dir)), ended: make(chan struct{})}
	l.line = &lifeline{cluster: c.cluster, last: -1, saw: map[collection]uint64{}}
	l.line.die = func() { l.corpse = c.corpse(l) }
	l.line.witness = func(verb string, before, after *thing) { c.checkChange(l, verb, before, after) }
	target, err := kubeclient.New(&rest.Config{Host: "http://cluster", Transport: l.line}, "test", 3, func(string, int) {}, quiet)
	if err != nil {
		return err
	}
	log := quiet
	if os.Getenv("ORRERY_TRACE") != "" {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("agent", l.name)
	}
	join := wire.Join{Hub: "https://hub", Location: "paris"}
	l.Agent = &Agent{
		config: Config{Join: join, Target: &rest.Config{}, DataDir: dir, Workers: 3, Shard: shard, LeaseDuration: leaseLasts},
		log:    log, metrics: newMetrics(), ready: make(chan struct{}), engine: worklist.New(), target: target,
		hub: hubclient.Over(spoke{center: c.hub, dead: &l.line.dead, shard: shard, apart: &l.apart}, join, "test", shard),
	}
	options := bolt.Options{NoSync: true, NoGrowSync: true, Timeout: 2 * time.Second, FreelistType: bolt.FreelistMapType}
	if l.store, err = store.OpenWith(options, dir, "paris", nil, log); err != nil {
		return err
	}
	previous := l.store.Meta().Shard
	if err := l.store.Serve(shard); err != nil {
		return errors.Join(err, l.store.Close())
	}
	l.build(previous)
	if err := l.load(); err != nil {
		return errors.Join(err, l.store.Close())
	}
	c.tell("start %s", l.name)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	c.cluster.mu.Lock()
	c.lives = append(c.lives, l)
	c.cluster.mu.Unlock()
	go func() {
		defer close(l.ended)
		if err := l.work(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, errOutdated) && !errors.Is(err, errOlder) {
			c.t.Errorf("%s ended: %v", l.name, err)
		}
		if err := l.store.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	<-l.Ready()
	return nil
}

// corpse copies the store of an agent as it is on disk, with the cluster's lock.
func (c *crew) corpse(l *life) string {
	dir := c.fresh()
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := l.store.Copy(filepath.Join(dir, store.File)); err != nil {
		c.t.Fatal(err)
	}
	return dir
}

// stop ends an agent: as it should be, or by kill -9. The next one of its number begins with
// what it leaves.
func (c *crew) stop(l *life, clean bool) {
	c.cluster.mu.Lock()
	dir := l.config.DataDir
	over := false
	select {
	case <-l.ended: // by itself
		over = true
	default:
	}
	switch {
	case over:
	case l.line.dead.Load():
		dir = l.corpse
	case !clean:
		dir = c.corpse(l)
		l.line.dead.Store(true)
	}
	c.tell("%s ends, and leaves %s", l.name, filepath.Base(dir))
	for i, other := range c.lives {
		if other == l {
			c.lives = append(c.lives[:i:i], c.lives[i+1:]...)
			break
		}
	}
	c.cluster.wake()
	c.cluster.mu.Unlock()
	c.hub.mu.Lock()
	c.hub.say()
	c.hub.mu.Unlock()
	l.cancel()
	<-l.ended
	c.stores[l.shard.Number()] = dir
}
