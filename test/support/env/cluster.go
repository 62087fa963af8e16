package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/ports"
)

// Users of a cluster, all of them in system:masters. Requests distinguishes them.
const (
	AdminUser = "admin"
	AgentUser = "orrery-agent"
)

const (
	// startTimeout is the maximum time that a process needs to be ready on a busy machine.
	startTimeout = 4 * time.Minute
	// checkTimeout is the timeout of one check whether a process is ready.
	checkTimeout = 30 * time.Second
)

// Cluster is a real Kubernetes cluster whose nodes are simulated: pods are
// scheduled and become Running and Ready, but run nothing.
type Cluster struct {
	Name string
	// Dir holds data, certificates and logs.
	Dir string
	// Kubeconfig is the file for AdminUser, and AgentKubeconfig that for AgentUser.
	Kubeconfig, AgentKubeconfig string
	// Config is the configuration for AdminUser, without a client-side rate limit.
	Config *rest.Config
	// Client is made from Config.
	Client kubernetes.Interface
	// APIServer is exported so that tests can measure or suspend it.
	APIServer *Process
	// Etcd is the etcd of the API server.
	Etcd *Process

	t          T
	etcd       *Etcd
	address    string
	serverArgs []string
	processes  []*Process
	requests   *auditEvents
	// isReplaced is set when the data in etcd may no longer be those that the cluster began with.
	isReplaced bool
}

// ClusterOption changes how a cluster is started.
type ClusterOption func(*clusterOptions)

type clusterOptions struct {
	apiOnly              bool
	serverArgs, etcdArgs []string
}

// APIOnly omits everything except etcd and the API server: there are no controllers and no nodes.
func APIOnly() ClusterOption {
	return func(o *clusterOptions) { o.apiOnly = true }
}

// APIServerArgs gives the API server further flags, which override those of the harness.
func APIServerArgs(args ...string) ClusterOption {
	return func(o *clusterOptions) { o.serverArgs = append(o.serverArgs, args...) }
}

// EtcdArgs gives the cluster's etcd further flags.
func EtcdArgs(args ...string) ClusterOption {
	return func(o *clusterOptions) { o.etcdArgs = append(o.etcdArgs, args...) }
}

// StartCluster returns a cluster that is ready: namespaces have their service
// accounts, nodes take pods. It ends with the test, unless ReuseClusters keeps it for later tests.
func StartCluster(t T, name string, options ...ClusterOption) *Cluster {
	t.Helper()
	var o clusterOptions
	for _, option := range options {
		option(&o)
	}
	if reused != nil && len(o.serverArgs) == 0 && len(o.etcdArgs) == 0 {
		return reused.take(t, name, o)
	}
	c := &Cluster{Name: name, t: t}
	c.startParts(o)
	return c
}

// startParts starts the processes of the cluster and waits until it is ready.
func (c *Cluster) startParts(o clusterOptions) {
	t := c.t
	t.Helper()
	c.Dir, c.address, c.serverArgs = t.TempDir(), ports.Reserve(t), o.serverArgs
	if err := c.writeFiles(); err != nil {
		t.Fatalf("prepare cluster %q: %v", c.Name, err)
	}
	c.requests = &auditEvents{}
	c.Etcd = c.process("etcd")
	// As kubeadm sets it: bookmarks then show the revisions of all writes, so an agent sees that etcd answers.
	c.etcd = newEtcd(t, c.Etcd, c.Dir, append([]string{"--watch-progress-notify-interval=5s"}, o.etcdArgs...)...)
	c.etcd.Start()
	c.APIServer = c.process("kube-apiserver")
	c.StartAPIServer()
	if !o.apiOnly {
		c.startControllers()
		c.startNodes()
	}
}

// Stop ends all processes of the cluster at once, like a power failure.
func (c *Cluster) Stop() {
	for _, p := range c.processes {
		p.Kill()
	}
}

// KillAPIServer ends the API server by SIGKILL. The other processes continue.
func (c *Cluster) KillAPIServer() {
	c.APIServer.Kill()
}

// StartAPIServer starts the API server after KillAPIServer, at the same address
// and with the same data, and waits until it is ready.
func (c *Cluster) StartAPIServer() {
	c.t.Helper()
	c.APIServer.start(append(c.apiServerArgs(), c.serverArgs...)...)
	c.eventually(c.APIServer, func(ctx context.Context) error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// process returns a process of the cluster, which is not started. Its name is that of its binary.
func (c *Cluster) process(binary string) *Process {
	c.t.Helper()
	p := newProcess(c.t, c.Name+"-"+binary, binary, c.Dir)
	c.processes = append(c.processes, p)
	return p
}

// eventually waits until f succeeds. It fails the test if p ends first.
func (c *Cluster) eventually(p *Process, f func(context.Context) error) {
	c.t.Helper()
	Eventually(c.t, startTimeout, func() error {
		if !p.Running() {
			c.t.Fatalf("%s ended: %s\n%s", p.name, p.cmd.ProcessState, tail(p.stderr))
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), checkTimeout)
		defer cancel()
		return f(ctx)
	})
}

func (c *Cluster) startControllers() {
	c.t.Helper()
	manager := c.process("kube-controller-manager")
	manager.start("--kubeconfig="+c.kubeconfig("kube-controller-manager"), "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+c.path(accountKey), "--root-ca-file="+c.path(servingCert),
		"--kube-api-qps=500", "--kube-api-burst=1000")
	scheduler := c.process("kube-scheduler")
	scheduler.start("--kubeconfig="+c.kubeconfig("kube-scheduler"), "--leader-elect=false", "--secure-port=0")
	c.eventually(manager, c.hasNamespaces)
}

// systemNamespaces is how many Namespaces an API server makes.
const systemNamespaces = 4

// hasNamespaces returns an error unless the Namespaces of a new cluster have what controllers put there.
func (c *Cluster) hasNamespaces(ctx context.Context) error {
	core := c.Client.CoreV1()
	namespaces, err := core.Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	accounts, err := core.ServiceAccounts("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		return err
	}
	authorities, err := core.ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=kube-root-ca.crt"})
	if err != nil {
		return err
	}
	if n := len(namespaces.Items); n < systemNamespaces || len(accounts.Items) != n || len(authorities.Items) != n {
		return fmt.Errorf("%d namespaces, %d default service accounts, %d authorities", n, len(accounts.Items), len(authorities.Items))
	}
	return nil
}

func (c *Cluster) startNodes() {
	c.t.Helper()
	kwok := c.process("kwok")
	kwok.start("--kubeconfig="+c.kubeconfig("kwok"), "--manage-all-nodes=true", "--server-address="+ports.Reserve(c.t),
		"--node-lease-duration-seconds=40")
	for _, name := range []string{"node-1", "node-2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		}}}
		if _, err := c.Client.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
			c.t.Fatalf("create node %q: %v", name, err)
		}
	}
	c.eventually(kwok, func(ctx context.Context) error {
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range nodes.Items {
			err = errors.Join(err, acceptsPods(&nodes.Items[i]))
		}
		return err
	})
}

// acceptsPods returns an error unless a node is ready and has no taints.
func acceptsPods(node *corev1.Node) error {
	if len(node.Spec.Taints) > 0 {
		return fmt.Errorf("node %q has taints %v", node.Name, node.Spec.Taints)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %q is not ready", node.Name)
}

func (c *Cluster) apiServerArgs() []string {
	_, port := splitAddress(c.address)
	return []string{
		"--etcd-servers=" + c.etcd.URL,
		"--bind-address=127.0.0.1", "--secure-port=" + port,
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + c.path(servingCert), "--tls-private-key-file=" + c.path(servingKey),
		"--token-auth-file=" + c.path(tokenFile), "--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path(accountKey), "--service-account-signing-key-file=" + c.path(accountKey),
		"--service-cluster-ip-range=10.0.0.0/16",
		"--audit-policy-file=" + c.path(auditPolicy), "--audit-log-path=" + c.path(auditLog), "--audit-log-maxsize=100000",
	}
}

func (c *Cluster) path(file string) string { return filepath.Join(c.Dir, file) }

// EtcdURL returns the client URL of the cluster's etcd.
func (c *Cluster) EtcdURL() string { return c.etcd.URL }

// AuditLog returns the name of the file that Requests reads, with one JSON value per line.
func (c *Cluster) AuditLog() string { return c.path(auditLog) }

func (c *Cluster) writeFile(name string, data []byte) error {
	return os.WriteFile(c.path(name), data, 0o600)
}
