package faults

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/agent"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/seeds"
)

// TestCorruptStore damages the store of a killed agent while its hub is stopped. The agent sets the
// store aside, and changes nothing in the cluster until the hub is back. Then it fetches all
// desired objects, and writes each object once.
func TestCorruptStore(t *testing.T) {
	t.Parallel()
	e := newEdge(t)
	for n := range 40 { // so that the store has more than a few pages
		e.put(fmt.Sprint("many-", n), "1")
	}
	for _, damage := range []struct {
		name string
		do   func(t *testing.T, file string)
		// empty reports whether the damaged file is equivalent to no store.
		empty bool
	}{
		{"page", flipPage, false},
		{"half", func(t *testing.T, file string) { truncate(t, file, inUse(t, file)/2) }, false},
		{"nothing", func(t *testing.T, file string) { truncate(t, file, 0) }, true},
		{"head", randomHead, false},
	} {
		t.Run(damage.name, func(t *testing.T) {
			e := &edge{World: e.World, Site: e.Site, t: t, space: e.space}
			e.throughDamage(damage.name, damage.do, damage.empty)
		})
	}
	e.Invariants()
}

// throughDamage damages the store of an agent that has some objects, and checks what
// becomes of them.
func (e *edge) throughDamage(name string, damage func(*testing.T, string), empty bool) {
	kept, edited, dropped, made := name+"-kept", name+"-edited", name+"-dropped", name+"-made"
	for _, n := range []string{kept, edited, dropped} {
		e.put(n, "1")
	}
	for _, n := range []string{kept, edited, dropped} {
		e.waitFor(n, "1")
	}
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Queued == 0 && s.Unsent == 0 })
	before := e.versions()

	file := filepath.Join(e.Agent.Dir, "agent.db")
	aside := e.aside()
	e.Agent.Kill()
	e.Link.Cut()
	damage(e.t, file)
	e.put(edited, "2")
	e.drop(dropped)
	e.put(made, "1")
	e.tamper(kept)
	start := time.Now()
	e.Agent.Start()
	e.waitForStatus(func(s agent.Status) bool { return s.Running && !s.Connected && s.LastError != "" && s.Desired == 0 })
	env.Throughout(e.t, observation, func() error { // the agent does not know the desired objects
		return errors.Join(e.checkTarget(kept, "tampered"), e.checkTarget(edited, "1"))
	})
	if writes := e.Cluster.AllRequests(e.t, env.Filter{User: env.AgentUser, Writes: true, After: start}); len(writes) > 0 {
		e.t.Errorf("knowing nothing the agent wrote %+v", writes)
	}
	now := slices.DeleteFunc(e.aside(), func(file string) bool { return slices.Contains(aside, file) }) // of those before, the oldest may be gone
	if n := len(now); empty != (n == 0) || n > 1 {
		e.t.Errorf("%d stores were set aside", n)
	}
	e.private()

	e.Link.Heal()
	e.waitFor(edited, "2")
	e.waitFor(made, "1")
	e.waitFor(kept, "1")
	e.gone(dropped)
	e.waitForStatus(func(s agent.Status) bool { return s.Connected && s.Proven && s.Queued == 0 && s.Unsent == 0 })
	e.deleted(start, 1)
	after := e.versions()
	// A new store writes each object once, with its place in the log.
	written := map[string]int{}
	for _, w := range e.Cluster.AllRequests(e.t, env.Filter{User: env.AgentUser, Writes: true, After: start}) {
		if w.Response.Code < http.StatusBadRequest {
			written[w.RequestURI]++
		}
	}
	for uri, n := range written {
		if n > 1 {
			e.t.Errorf("%d writes to %s", n, uri)
		}
	}
	for n, old := range before {
		is, there := after[n]
		switch {
		case n == dropped:
		case !there || is.uid != old.uid:
			e.t.Errorf("%s was replaced", n)
		}
	}
	e.private()
}

// aside are the stores that were set aside.
func (e *edge) aside() []string {
	e.t.Helper()
	files, err := filepath.Glob(filepath.Join(e.Agent.Dir, "agent.db.corrupt-*"))
	if err != nil {
		e.t.Fatal(err)
	}
	return files
}

// private checks that other users cannot read the files of the agent.
func (e *edge) private() {
	e.t.Helper()
	if err := filepath.WalkDir(e.Agent.Dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // the status is replaced all the time
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("%s has mode %s", path, info.Mode())
		}
		return err
	}); err != nil {
		e.t.Error(err)
	}
}

// flipPage turns all bits of a page in the middle of those that are in use.
func flipPage(t *testing.T, file string) {
	t.Helper()
	db := openStore(t, file)
	var used []int
	err := db.View(func(tx *bolt.Tx) error {
		for id := 0; ; id++ {
			page, err := tx.Page(id)
			if err != nil || page == nil {
				return err
			}
			if page.Type == "leaf" {
				used = append(used, id)
			}
		}
	})
	size := db.Info().PageSize
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	page := data[used[len(used)/2]*size:][:size]
	for i := range page {
		page[i] = ^page[i]
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// inUse is how much of a store's file has pages: it is longer by up to as much again.
func inUse(t *testing.T, file string) (size int64) {
	t.Helper()
	db := openStore(t, file)
	err := db.View(func(tx *bolt.Tx) error { size = tx.Size(); return nil })
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	return size
}

func truncate(t *testing.T, file string, size int64) {
	t.Helper()
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
}

// openStore opens the file of a store whose agent has ended.
func openStore(t *testing.T, file string) *bolt.DB {
	t.Helper()
	db, err := bolt.Open(file, 0o600, &bolt.Options{ReadOnly: true, PreLoadFreelist: true, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// randomHead replaces the pages by which everything else is found.
func randomHead(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4*os.Getpagesize())
	random := seeds.Rand(t, 1)
	for i := range head {
		head[i] = byte(random.Uint32())
	}
	_, err = f.WriteAt(head, 0)
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}
