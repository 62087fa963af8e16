package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ReuseClusters runs the tests of a package and returns the exit code. TestMain calls it. The clusters
// of tests that have ended stay running, and StartCluster prefers them to new ones.
//
// A cluster belongs to one test at a time. StartCluster removes the objects of earlier tests, undoes
// their changes, and returns the cluster once its API shows the same resources, objects and schemas as
// when it was new. Kubeconfigs and recorded requests are the test's own. Two things differ from a new
// cluster: revisions are higher, and the objects that each cluster has, such as the Namespace
// kube-system, keep their UIDs.
//
// A cluster is not kept if it has flags of its own, if Restore, Rebuild, KillEtcd or Stop was called, if a process
// has ended or was altered, such as by Setenv, or if its test failed. If a kept cluster does not become as new, a
// new one is started.
func ReuseClusters(m interface{ Run() int }) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	keeper := &program{name: "clusters", ctx: ctx}
	defer keeper.clean(cancel)
	reused = &clusterPool{keeper: keeper}
	return m.Run()
}

// reused are the clusters that ReuseClusters keeps; nil: none are kept.
var reused *clusterPool

// clusterPool has the clusters that no test uses.
type clusterPool struct {
	keeper *program

	mu   sync.Mutex
	free []*keptCluster
}

// keptCluster is a cluster that outlives its tests.
type keptCluster struct {
	*Cluster
	apiOnly bool
	// records, objects and nodes are those of the new cluster.
	records records
	objects inventory
	nodes   nodes
}

// keptT is the test that starts a cluster. Directories, ports and processes of the cluster are the keeper's.
type keptT struct {
	T
	keeper *program
}

func (t keptT) TempDir() string  { return t.keeper.TempDir() }
func (t keptT) Cleanup(f func()) { t.keeper.Cleanup(f) }

// take returns a cluster for a test, and takes it back when the test has ended.
func (p *clusterPool) take(t T, name string, o clusterOptions) *Cluster {
	t.Helper()
	for k := p.next(o.apiOnly); k != nil; k = p.next(o.apiOnly) {
		t.Cleanup(func() { p.put(k) })
		began := time.Now()
		k.lend(t, name)
		if err := k.reset(); err != nil {
			t.Logf("the cluster of an earlier test is not used again: %v", err)
			p.drop(k)
			continue
		}
		k.requests.since = time.Now()
		t.Logf("cluster %q is that of an earlier test, as new after %s", name, time.Since(began).Round(time.Millisecond))
		return k.Cluster
	}
	k := &keptCluster{Cluster: &Cluster{Name: name, t: keptT{t, p.keeper}}, apiOnly: o.apiOnly}
	t.Cleanup(func() { p.put(k) })
	k.startParts(o)
	k.remember()
	k.lend(t, name)
	return k.Cluster
}

// next takes a cluster out of those that no test uses; nil: there is none.
func (p *clusterPool) next(apiOnly bool) *keptCluster {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.free, func(k *keptCluster) bool { return k.apiOnly == apiOnly })
	if i < 0 {
		return nil
	}
	k := p.free[i]
	p.free = slices.Delete(p.free, i, i+1)
	return k
}

// put takes back the cluster of a test that has ended.
func (p *clusterPool) put(k *keptCluster) {
	isUnlike := func(p *Process) bool { return p.isAltered || !p.Running() }
	if k.t.Failed() || k.isReplaced || k.objects == nil || slices.ContainsFunc(k.processes, isUnlike) {
		p.drop(k)
		return
	}
	k.use(p.keeper)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, k)
}

// drop ends a cluster for good, and shows its logs if the test failed.
func (p *clusterPool) drop(k *keptCluster) {
	for _, process := range slices.Backward(k.processes) {
		process.end()
	}
	k.use(p.keeper)
}

// use sets the test of the cluster and of its processes.
func (k *keptCluster) use(t T) {
	k.t = t
	if k.etcd != nil {
		k.etcd.t = t
	}
	for _, process := range k.processes {
		process.t = t
	}
}

// lend gives the cluster to a test: as another value, with the test's own name, kubeconfigs, clients and
// requests.
func (k *keptCluster) lend(t T, name string) {
	t.Helper()
	c := *k.Cluster
	k.Cluster = &c
	k.use(t)
	c.Name = name
	for _, process := range c.processes {
		process.name = name + "-" + filepath.Base(process.binary)
	}
	dir := t.TempDir()
	for _, user := range []string{AdminUser, AgentUser} {
		content, err := os.ReadFile(c.kubeconfig(user))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, user+".kubeconfig"), content, 0o600)
		}
		if err != nil {
			t.Fatalf("write the kubeconfigs of cluster %q: %v", name, err)
		}
	}
	c.Kubeconfig, c.AgentKubeconfig = filepath.Join(dir, AdminUser+".kubeconfig"), filepath.Join(dir, AgentUser+".kubeconfig")
	c.Config = rest.CopyConfig(c.Config)
	var err error
	if c.Client, err = kubernetes.NewForConfig(c.Config); err != nil {
		t.Fatalf("make a client of cluster %q: %v", name, err)
	}
	c.requests = &auditEvents{offset: c.requests.offset}
}

// remember records what the new cluster has, once it has all objects that it creates itself.
func (k *keptCluster) remember() {
	k.eventually(k.APIServer, func(ctx context.Context) error {
		namespaces, err := k.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		if err == nil && len(namespaces.Items) < systemNamespaces {
			err = fmt.Errorf("%d namespaces", len(namespaces.Items))
		}
		if err != nil {
			return err
		}
		if _, err = k.Client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{}); err != nil {
			return err
		}
		records, err := readRecords(ctx, k.etcd.URL)
		if err != nil {
			return err
		}
		nodes, err := readNodes(ctx, k.Client)
		if err != nil {
			return err
		}
		objects, err := readInventory(ctx, k.Config)
		if err == nil {
			k.records, k.objects, k.nodes = records, objects, nodes
		}
		return err
	})
}

// resetTimeout is how long a cluster may take to be as it was; after that a new one is started.
const resetTimeout = time.Minute

// reset removes the objects of earlier tests and undoes their changes, and waits until the API shows what
// it showed when the cluster was new. It writes to etcd: the API would not remove objects that have
// finalizers, or whose controllers are missing.
//
// Lists are as new as etcd, and so are the caches they come from. What the API server itself uses, such
// as its webhooks and roles, follows a moment later, so the API must be as new twice.
func (k *keptCluster) reset() error {
	ctx, cancel := context.WithTimeout(k.t.Context(), resetTimeout)
	defer cancel()
	var wasAsNew bool
	return poll(ctx, resetTimeout, func() error {
		if err := k.records.restore(ctx, k.etcd.URL); err != nil {
			return fmt.Errorf("write to etcd: %w", err)
		}
		if err := k.nodes.restore(ctx, k.Client); err != nil {
			wasAsNew = false
			return fmt.Errorf("restore the nodes: %w", err)
		}
		now, err := readInventory(ctx, k.Config)
		if err != nil {
			return fmt.Errorf("list all objects: %w", err)
		}
		if err := k.objects.differs(now); err != nil {
			wasAsNew = false
			return err
		}
		if !wasAsNew {
			wasAsNew = true
			return errors.New("as new for the first time")
		}
		return nil
	})
}
