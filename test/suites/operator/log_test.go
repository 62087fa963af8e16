package operator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// graceOf is --disconnected-after of a hub. It is long enough that no location counts as disconnected
// whose agent returns in time, also if the machine pauses for seconds.
const graceOf = 10 * time.Second

// external is a site whose hub has its log in an external etcd.
type external struct {
	*site
	etcd   *env.Etcd
	client *clientv3.Client
}

func newExternal(t *testing.T) *external {
	t.Helper()
	etcd := env.StartEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{etcd.URL}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &external{newSite(t, "--etcd-servers", etcd.URL, "--heartbeat", graceOf.String(), "--disconnected-after", graceOf.String()), etcd, client}
}

// revision is how far the log is.
func (e *external) revision() int64 {
	e.t.Helper()
	now, err := e.client.Get(e.t.Context(), "/orrery/")
	if err != nil {
		e.t.Fatal(err)
	}
	return now.Header.Revision
}

// lostSince returns the revisions, from a given one, at which the log has a location as disconnected.
func (e *external) lostSince(rev int64, name string) (all []int64) {
	e.t.Helper()
	for now := e.revision(); rev <= now; rev++ {
		got, err := e.client.Get(e.t.Context(), "/orrery/o/root/orrery.dev/locations/"+name, clientv3.WithRev(rev))
		if err != nil {
			e.t.Fatal(err)
		}
		var l v1alpha1.Location
		if len(got.Kvs) == 0 || got.Kvs[0].ModRevision != rev {
			continue
		}
		if err := json.Unmarshal(got.Kvs[0].Value, &l); err != nil {
			e.t.Fatal(err)
		}
		if meta.IsStatusConditionFalse(l.Status.Conditions, v1alpha1.ConditionConnected) {
			all = append(all, rev)
		}
	}
	return all
}

// TestOutage takes etcd away from a hub for longer than the hub waits for agents, once by
// ending etcd and once by suspending it, while one agent reconnects and another is gone
// for good: the hub's process goes on, and only the location that is really gone is
// declared lost, in its time.
func TestOutage(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	s.put("1", "a")
	s.Eventually("the object is at the site", s.hasValue("a", "1"))
	env.Orrery(t, s.Root, "location", "add", "other")
	other := env.StartAgent(t, "other", s.Token("other"), s.Cluster.AgentKubeconfig)
	s.Eventually("the other is connected", s.connected("other", metav1.ConditionTrue))
	for i, outage := range []struct {
		name      string
		off, back func()
	}{
		{"etcd hangs", func() { s.etcd.Signal(syscall.SIGSTOP) }, func() { s.etcd.Signal(syscall.SIGCONT) }},
		{"etcd is killed", s.etcd.Kill, s.etcd.Start},
	} {
		t.Logf("--- %s", outage.name)
		since := s.revision()
		outage.off()
		s.Agent.Kill()
		other.Kill()
		s.Agent.Start()
		env.Throughout(t, graceOf+graceOf/2, func() error {
			if !s.Hub.Running() {
				return fmt.Errorf("the hub has ended")
			}
			return nil
		})
		env.Eventually(t, world.Soon, func() error { return s.unready() })
		ended := time.Now()
		outage.back()
		value := fmt.Sprint(i + 2)
		s.Eventually("the hub is ready again", func() error { return s.tryPut(value, "a") })
		back := time.Now()
		s.Eventually("the agent is back", s.hasValue("a", value))
		isLate := time.Since(ended) >= graceOf
		s.Eventually("the other is declared lost", s.connected("other", metav1.ConditionFalse))
		t.Logf("lost %s after the hub was ready", time.Since(back).Round(time.Millisecond))
		switch lost := s.lostSince(since, siteName); {
		case len(lost) > 0 && isLate: // it was: the machine stood still
			t.Logf("%s: the agent was back too late to be kept", outage.name)
		case len(lost) > 0:
			t.Errorf("%s: the location was declared lost at revisions %d", outage.name, lost)
		}
		other.Start()
		s.Eventually("the other is back", s.connected("other", metav1.ConditionTrue))
	}
}

// connected returns an error unless a location's condition Connected has a status.
func (s *site) connected(name string, want metav1.ConditionStatus) func() error {
	return func() error {
		var l v1alpha1.Location
		if err := s.read(name, &l); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionConnected); c == nil || c.Status != want {
			return fmt.Errorf("%s is %+v", name, c)
		}
		return nil
	}
}

// unready returns an error if the hub is ready.
func (s *site) unready() error {
	out, err := env.TryKubectl(s.t, s.Hub.PathKubeconfig(""), "get", "--raw", "/readyz")
	if err == nil {
		return fmt.Errorf("readyz says %q", out)
	}
	return nil
}

// tryPut is put for use in Eventually.
func (s *site) tryPut(value, name string) error {
	_, err := env.Command{Binary: "kubectl", Kubeconfig: s.file, Args: []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}, Stdin: fmt.Sprintf(
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: %s, labels: {what: app}}, data: {v: %q}}", name, namespace, value)}.Try(s.t)
	return err
}

// TestRestoredBelow restores an external etcd below a running hub and below a stopped
// one, by etcd's own command, with and without bumped revisions, also after others have
// written to it beyond the revision at which it was: the hub goes on, and the agent holds
// back what the copy does not prove until it is accepted.
func TestRestoredBelow(t *testing.T) {
	t.Parallel()
	s := newExternal(t)
	s.put("0", "kept", "changed", "deleted")
	s.Eventually("the object is at the site", s.mine(3))
	bump := []string{"--bump-revision", "1000000", "--mark-compacted"}
	for _, c := range []struct {
		name    string
		args    []string
		stopped bool
		others  int // how many revisions others write before the hub sees it
	}{
		{name: "running", others: 0},
		{name: "running and bumped", args: bump},
		{name: "running and passed", others: 200},
		{name: "stopped and bumped", args: bump, stopped: true},
		{name: "stopped and passed", others: 200, stopped: true},
	} {
		if !t.Run(c.name, func(t *testing.T) {
			s.t, s.T = t, t
			s.Eventually("the state before", s.reset("1"))
			file := filepath.Join(t.TempDir(), "backup.db")
			env.Orrery(t, s.Root, "hub", "backup", file)
			s.put("2", "changed", "new")
			env.Kubectl(t, s.file, "delete", "configmap", "-n", namespace, "deleted")
			s.Eventually("the new object is at the site", s.hasValue("new", "2"))
			s.Eventually("the deleted is gone", s.lacks("deleted"))
			s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")

			if c.stopped {
				s.Hub.Stop()
			}
			s.etcd.Kill()
			s.etcd.Restore(file, c.args...)
			if c.others > 0 {
				s.etcd.WithoutClients(func(url string) { write(t, url, c.others) })
			}
			s.etcd.Start()
			if c.stopped {
				s.Hub.Start()
			}
			s.heldBack()
		}) {
			return
		}
	}
}

// reset brings the ConfigMaps to where a case begins.
func (s *site) reset(value string) func() error {
	return func() error {
		if err := s.tryPut(value, "changed"); err != nil {
			return err
		}
		if err := s.tryPut(value, "deleted"); err != nil {
			return err
		}
		if err := s.hasValue("changed", value)(); err != nil {
			return err
		}
		return s.hasValue("deleted", value)()
	}
}

// heldBack shows that the agent holds back what the copy does not prove, and follows it
// once it is accepted.
func (s *site) heldBack() {
	t := s.t
	t.Helper()
	s.Eventually("the agent is not proven", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if a := l.Status.Agent; a == nil || a.LogIdentity != "Unproven" || a.Deferred < 2 {
			return fmt.Errorf("the agent says %+v", a)
		}
		return nil
	})
	s.Eventually("the object that only the copy has is created", s.hasValue("deleted", "1"))
	env.Throughout(t, observation, s.hasValue("changed", "2"))
	env.Throughout(t, observation, s.hasValue("new", "2"))
	env.Orrery(t, s.Root, "location", "accept", siteName)
	s.Eventually("the change is reverted", s.hasValue("changed", "1"))
	s.Eventually("what only the log before had goes", func() error {
		l, err := s.described()
		if err != nil {
			return err
		}
		if a := l.Status.Agent; a.Prune != nil && a.Prune.Digest != "" {
			_, _ = env.Command{Binary: "orrery", Kubeconfig: s.Root, Args: []string{"location", "confirm-prune", siteName, "--digest", a.Prune.Digest}}.Try(t)
		}
		return s.lacks("new")()
	})
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")
}

// write writes to an etcd as others would.
func write(t *testing.T, url string, n int) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Context: t.Context()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for i := range n {
		if _, err := client.Put(t.Context(), "/others/key", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// killBackup shows that a backup that is killed while it is made leaves the former one as
// it was.
func (s *site) killBackup(file string) {
	s.t.Helper()
	for end := time.Now().Add(world.Soon); time.Now().Before(end); {
		former, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		if !s.killedBackup(file) { // it was whole before
			continue
		}
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, former) {
			s.t.Errorf("a backup that was killed has taken the place of a good one: %v", err)
		}
		return
	}
	s.t.Error("no backup was killed while it was made")
}

// killedBackup kills a running backup, and removes its temporary files. It returns false if the
// backup had already ended.
func (s *site) killedBackup(file string) bool {
	s.t.Helper()
	cmd := exec.Command(env.Binary(s.t, "orrery"), "hub", "backup", file, "--kubeconfig", s.Root)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	begun := func() []string {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".*"))
		if err != nil {
			s.t.Fatal(err)
		}
		return files
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for len(begun()) == 0 {
		select {
		case err := <-ended:
			if err != nil {
				s.t.Fatal(err)
			}
			return false
		default:
			runtime.Gosched()
		}
	}
	_ = cmd.Process.Kill() // it may have ended
	killed := <-ended != nil
	for _, file := range begun() {
		if err := os.Remove(file); err != nil {
			s.t.Fatal(err)
		}
	}
	return killed
}

// TestBackup makes backups of an embedded log during writes, and restores one, which the location
// then follows. The restore rejects an incomplete file.
func TestBackup(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.put("0", "kept", "changed", "deleted")
	s.Eventually("the object is at the site", s.mine(3))
	s.Eventually("the state before", s.reset("1"))
	file := filepath.Join(t.TempDir(), "backup.db")
	stop := make(chan struct{})
	busy := make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				busy <- nil
				return
			default:
			}
			if err := s.tryPut(fmt.Sprint("busy-", i), "kept"); err != nil {
				busy <- err
				return
			}
		}
	}()
	for range 3 {
		env.Orrery(t, s.Root, "hub", "backup", file)
	}
	close(stop)
	if err := <-busy; err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v", info, err)
	}
	s.killBackup(file)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".backup*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if msg := env.OrreryFails(t, s.Root, "hub", "restore", file, "--data-dir", s.Hub.Dir); !strings.Contains(msg, "in use") {
		t.Errorf("restore below a running hub: %s", msg)
	}
	s.put("2", "changed", "new", "kept")
	env.Kubectl(t, s.file, "delete", "configmap", "-n", namespace, "deleted")
	s.Eventually("the new object is at the site", s.hasValue("new", "2"))
	s.Eventually("the deleted is gone", s.lacks("deleted"))
	s.hasCondition(v1alpha1.ConditionSynced, metav1.ConditionTrue, "Applied")

	s.Hub.Kill()
	if msg := env.OrreryFails(t, s.Root, "hub", "restore", file, "--data-dir", s.Hub.Dir); !strings.Contains(msg, "already exists") {
		t.Errorf("restore over a log: %s", msg)
	}
	if err := os.Rename(filepath.Join(s.Hub.Dir, "etcd"), filepath.Join(s.Hub.Dir, "etcd.old")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := file + ".damaged"
	for name, bytes := range map[string][]byte{"whole": whole[:len(whole)-512], "damaged": append([]byte("x"), whole[1:]...)} {
		if err := os.WriteFile(damaged, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if msg := env.OrreryFails(t, s.Root, "hub", "restore", damaged, "--data-dir", s.Hub.Dir); !strings.Contains(msg, "damaged") && !strings.Contains(msg, "not whole") {
			t.Errorf("restore of what is not %s: %s", name, msg)
		}
	}
	env.Orrery(t, s.Root, "hub", "restore", file, "--data-dir", s.Hub.Dir)
	s.Hub.Start()
	s.heldBack()
	if err := s.hasValue("kept", "2")(); err == nil {
		t.Error("kept has a value from after the backup")
	}
}
