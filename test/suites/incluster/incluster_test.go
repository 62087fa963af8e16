package incluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

const (
	location  = "plant"
	namespace = "orrery-system"
	account   = "orrery-agent"
	image     = "registry.example/orrery-agent:v1"
)

// size is that of the disk.
var size = resource.MustParse("1Gi")

// inCluster is an agent whose Pod exists at a cluster without nodes that run anything: the
// process is started as the Pod says.
type inCluster struct {
	*world.World
	t       *testing.T
	cluster *env.Cluster
	space   string // kubeconfig
	// agent runs with volumes that are directories below dir.
	agent *env.Container
	dir   string
}

// TestInCluster applies the manifest, and runs the agent with its rights, mounts and
// arguments, in the root directory of an image FROM scratch.
func TestInCluster(t *testing.T) {
	w := world.New(t)
	s := &inCluster{World: w, t: t, space: w.AddSpace("shop"), cluster: env.StartCluster(t, location), dir: t.TempDir()}
	s.agent = env.NewContainer(t, "agent", "static/orrery-agent")
	for _, step := range []struct {
		name string
		run  func(*inCluster)
	}{
		{"the manifest is applied", applied},
		{"the agent joins with no rights but to look around", joins},
		{"what is placed is allowed", allowed},
		{"the Pod is started again", again},
		{"the volume is lost", volumeLost},
		{"nothing shows the join token", secret},
	} {
		if !t.Run(step.name, func(t *testing.T) { s.t, s.T = t, t; step.run(s) }) {
			return
		}
	}
}

func (s *inCluster) kubectl(args ...string) string {
	s.t.Helper()
	return env.Kubectl(s.t, s.cluster.Kubeconfig, args...)
}

// can asks the cluster what the agent's account may do.
func (s *inCluster) can(what ...string) bool {
	s.t.Helper()
	args := append([]string{"auth", "can-i", "--as=system:serviceaccount:" + namespace + ":" + account}, what...)
	out, err := env.TryKubectl(s.t, s.cluster.Kubeconfig, args...)
	switch answer := strings.TrimSpace(out); {
	case answer == "yes" && err == nil:
		return true
	case answer == "no":
		return false
	}
	s.t.Fatalf("can-i %q: %s, %v", what, out, err)
	return false
}

func applied(s *inCluster) {
	t := s.t
	// The strictest of what namespaces may require of their Pods.
	s.kubectl("create", "namespace", namespace)
	s.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: size},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: s.dir}},
	}}
	if _, err := s.cluster.Client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	manifest := env.Orrery(t, s.Root, "location", "add", location, "--manifest", "--image", image)
	if !strings.HasPrefix(manifest, "---\napiVersion: v1\nkind: Namespace\n") || strings.Contains(manifest, "status:") || strings.Contains(manifest, "null") {
		t.Errorf("the manifest is\n%s", manifest)
	}
	env.KubectlIn(t, s.cluster.Kubeconfig, manifest, "apply", "--dry-run=server", "-f", "-")
	env.KubectlIn(t, s.cluster.Kubeconfig, manifest, "apply", "-f", "-")
	if out := env.KubectlIn(t, s.cluster.Kubeconfig, manifest, "apply", "-f", "-"); strings.Contains(out, "deployment.apps/orrery-agent configured") {
		t.Errorf("applied again it is another:\n%s", out)
	}
	s.kubectl("rollout", "status", "-n", namespace, "deployment/orrery-agent", "--timeout="+world.Soon.String())
	for what, want := range map[string]bool{
		"get /version": true, "get /apis": true, "list configmaps": false, "create deployments.apps": false, "get secrets": false,
		"create namespaces": false, "create clusterroles.rbac.authorization.k8s.io": false, "impersonate serviceaccounts": false,
	} {
		if got := s.can(strings.Fields(what)...); got != want {
			t.Errorf("it may %s: %v", what, got)
		}
	}
}

func (s *inCluster) deployment() *appsv1.Deployment {
	s.t.Helper()
	d, err := s.cluster.Client.AppsV1().Deployments(namespace).Get(s.t.Context(), "orrery-agent", metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

// pod is what a kubelet makes of the applied Deployment: user, mounts, environment and
// arguments.
func (s *inCluster) pod() (user int64, mounts []env.Mount, environment, args []string) {
	s.t.Helper()
	pod := s.deployment().Spec.Template.Spec
	c := pod.Containers[0]
	user = *pod.SecurityContext.RunAsUser
	if strings.Join(c.Command, " ") != "/orrery-agent" || c.Image != image || !*c.SecurityContext.ReadOnlyRootFilesystem {
		s.t.Fatalf("the container is %+v", c)
	}
	mounts = []env.Mount{{From: s.serviceAccount(pod.ServiceAccountName), Path: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true}}
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		mounts = append(mounts, env.Mount{From: s.volume(pod.Volumes[i], *pod.SecurityContext.FSGroup), Path: m.MountPath, ReadOnly: m.ReadOnly})
	}
	server, err := url.Parse(s.cluster.Config.Host)
	if err != nil {
		s.t.Fatal(err)
	}
	environment = []string{"KUBERNETES_SERVICE_HOST=" + server.Hostname(), "KUBERNETES_SERVICE_PORT=" + server.Port()}
	// All containers of this test are in one network: the port is any.
	args = slices.Clone(c.Args)
	i := slices.Index(args, fmt.Sprintf("--metrics=:%d", c.Ports[0].ContainerPort))
	if i < 0 || c.LivenessProbe.HTTPGet.Port.String() != c.Ports[0].Name {
		s.t.Fatalf("the probe asks %+v, the arguments are %q", c.LivenessProbe.HTTPGet, args)
	}
	args[i] = "--metrics=127.0.0.1:0"
	return user, mounts, environment, args
}

// serviceAccount is the directory with the account's token, as a kubelet keeps it.
func (s *inCluster) serviceAccount(name string) string {
	s.t.Helper()
	token, err := s.cluster.Client.CoreV1().ServiceAccounts(namespace).CreateToken(s.t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.files("serviceaccount", 0, map[string][]byte{
		"token": []byte(token.Status.Token), "ca.crt": s.cluster.Config.CAData, "namespace": []byte(namespace),
	})
}

// files makes a directory whose files a group may read.
func (s *inCluster) files(name string, group int64, files map[string][]byte) string {
	s.t.Helper()
	dir := filepath.Join(s.dir, name)
	err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755))
	for name, content := range files {
		mode := os.FileMode(0o644)
		if group > 0 {
			mode = 0o440
		}
		file := filepath.Join(dir, name)
		err = errors.Join(err, os.WriteFile(file, content, mode), os.Chown(file, 0, int(group)))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return dir
}

func (s *inCluster) volume(v corev1.Volume, group int64) string {
	s.t.Helper()
	if v.Secret != nil {
		found, err := s.cluster.Client.CoreV1().Secrets(namespace).Get(s.t.Context(), v.Secret.SecretName, metav1.GetOptions{})
		if err != nil && !*v.Secret.Optional {
			s.t.Fatal(err)
		}
		if mode := *v.Secret.DefaultMode; mode != 0o440 {
			s.t.Errorf("the Secret's files have mode %o", mode)
		}
		return s.files(v.Name, group, found.Data)
	}
	if v.PersistentVolumeClaim.ClaimName != "orrery-agent" {
		s.t.Fatalf("the volume is %+v", v)
	}
	dir := filepath.Join(s.dir, "disk")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.Chown(dir, 0, int(group)), os.Chmod(dir, 0o775|os.ModeSetgid)); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// start runs the agent as the Pod says.
func (s *inCluster) start() {
	s.t.Helper()
	user, mounts, environment, args := s.pod()
	if line := s.agent.Start(user, mounts, environment, args...); !strings.HasPrefix(line, "orrery-agent ready: location "+location) {
		s.t.Fatalf("it says %q", line)
	}
}

func joins(s *inCluster) {
	t := s.t
	s.start()
	env.KubectlIn(t, s.space, `
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: web}
spec:
  locations: [{names: [plant]}]
  downsync: [{namespaces: [web], returnStatus: Singleton}]
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: page, namespace: web}, data: {title: hello}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
`, "apply", "-f", "-")
	s.Eventually("the agent says what it may not do", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.space, Args: []string{"status", "--state", "Failed"}}.Try(t)
		if err != nil {
			return err
		}
		if !strings.Contains(out, "is forbidden") {
			return errors.New(out)
		}
		return nil
	})
}

// page waits for the ConfigMap at the cluster.
func (s *inCluster) page(title string) {
	s.t.Helper()
	s.Eventually("the page says "+title, func() error {
		m, err := s.cluster.Client.CoreV1().ConfigMaps("web").Get(s.t.Context(), "page", metav1.GetOptions{})
		if err == nil && m.Data["title"] != title {
			err = fmt.Errorf("it says %q", m.Data["title"])
		}
		return err
	})
}

// allow grants the agent the rights for the assigned objects, as the agent prints them in its Pod.
func (s *inCluster) allow() {
	s.t.Helper()
	var rights string
	s.Eventually("the agent knows what is placed", func() error {
		rights = env.Command{Binary: "static/orrery-agent", Args: []string{"rbac", "--placed", "--data-dir", filepath.Join(s.dir, "disk", "orrery-agent")}, Kubeconfig: s.Root}.Run(s.t)
		if !strings.Contains(rights, "- deployments") || !strings.Contains(rights, "- configmaps") {
			return errors.New(rights)
		}
		return nil
	})
	env.KubectlIn(s.t, s.cluster.Kubeconfig, rights, "apply", "-f", "-")
}

func allowed(s *inCluster) {
	s.allow()
	s.page("hello")
	s.Eventually("the Deployment is there", func() error {
		_, err := env.TryKubectl(s.t, s.cluster.Kubeconfig, "get", "deployment", "-n", "web", "web")
		return err
	})
	for what, want := range map[string]bool{
		"patch configmaps": true, "create deployments.apps": true, "create namespaces": true, "get secrets": false, "delete nodes": false,
		"create clusterroles.rbac.authorization.k8s.io": false,
	} {
		if got := s.can(strings.Fields(what)...); got != want {
			s.t.Errorf("it may %s: %v", what, got)
		}
	}
}

func again(s *inCluster) {
	t := s.t
	for _, change := range []struct{ what, title string }{{"with the Secret that was used", "again"}, {"without it", "and again"}} {
		s.agent.Stop()
		if change.what == "without it" {
			s.kubectl("delete", "secret", "-n", namespace, "orrery-agent-join")
		}
		s.kubectl("delete", "configmap", "-n", "web", "page")
		s.start()
		env.Kubectl(t, s.space, "patch", "configmap", "-n", "web", "page", "-p", `{"data":{"title":"`+change.title+`"}}`)
		s.page(change.title)
	}
	s.Eventually("a new Pod observes at once what it may, so the status is in the space", func() error {
		out, err := env.TryKubectl(s.t, s.space, "get", "deployment", "-n", "web", "web", "-o", "jsonpath={.status.readyReplicas}")
		if err == nil && out != "1" {
			err = fmt.Errorf("%q replicas are ready", out)
		}
		return err
	})
	if strings.Contains(s.agent.Arguments(), s.join()) {
		t.Error("the join token is among the arguments of the process")
	}
}

// join is the join token of the last Secret, with which the process once started; empty
// when there is none.
func (s *inCluster) join() string {
	var kept struct{ Join struct{ Token string } }
	b, err := os.ReadFile(filepath.Join(s.dir, "disk", "orrery-agent", "setup.json"))
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err != nil || kept.Join.Token == "" {
		s.t.Fatalf("the setup: %v", err)
	}
	return kept.Join.Token
}

func volumeLost(s *inCluster) {
	t := s.t
	s.agent.Stop()
	uid := s.kubectl("get", "configmap", "-n", "web", "page", "-o", "jsonpath={.metadata.uid}")
	token := s.join()
	if err := os.RemoveAll(filepath.Join(s.dir, "disk")); err != nil {
		t.Fatal(err)
	}
	user, mounts, environment, args := s.pod()
	s.agent.Run(user, mounts, environment, args...)
	if code, ended := s.agent.Wait(world.Soon); !ended || code != 1 || !strings.Contains(s.agent.Stderr(), "--join") {
		t.Fatalf("without a token: %d, %v, %s", code, ended, s.agent.Stderr())
	}
	before := s.deployment()
	manifest := env.Orrery(t, s.Root, "location", "token", location, "--manifest", "--image", image, "--rbac", "configmaps,deployments.apps")
	if strings.Contains(manifest, token) {
		t.Error("it has the token that was used")
	}
	env.KubectlIn(t, s.cluster.Kubeconfig, manifest, "apply", "-f", "-")
	if now := s.deployment(); now.Generation == before.Generation {
		t.Error("the new token makes no new Pod")
	}
	s.kubectl("rollout", "status", "-n", namespace, "deployment/orrery-agent", "--timeout="+world.Soon.String())
	s.start()
	env.Kubectl(t, s.space, "patch", "configmap", "-n", "web", "page", "-p", `{"data":{"title":"anew"}}`)
	s.page("anew")
	if now := s.kubectl("get", "configmap", "-n", "web", "page", "-o", "jsonpath={.metadata.uid}"); now != uid {
		t.Errorf("the page was made again: %s, %s", uid, now)
	}
	// The same token on another volume: it works once.
	s.agent.Stop()
	if err := os.Rename(filepath.Join(s.dir, "disk"), filepath.Join(s.dir, "other")); err != nil {
		t.Fatal(err)
	}
	user, mounts, environment, args = s.pod()
	s.agent.Run(user, mounts, environment, args...)
	if code, ended := s.agent.Wait(world.Soon); !ended || code != 1 || !regexp.MustCompile(`token.*used`).MatchString(s.agent.Stderr()) {
		t.Fatalf("with a used token: %d, %v, %s", code, ended, s.agent.Stderr())
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(s.dir, "disk")), os.Rename(filepath.Join(s.dir, "other"), filepath.Join(s.dir, "disk"))); err != nil {
		t.Fatal(err)
	}
	s.start()
}

func secret(s *inCluster) {
	token := s.join()
	for name, text := range map[string]string{
		"the agent's log": s.agent.Stderr(), "its output": s.agent.Stdout(), "the hub's log": s.Hub.Stderr(), "its arguments": s.agent.Arguments(),
		"the cluster": s.kubectl("get", "deployments,pods,replicasets,events,configmaps", "-A", "-o", "yaml"),
		"events":      env.Kubectl(s.t, s.Root, "get", "events", "-A", "-o", "yaml"),
		"Locations":   env.Kubectl(s.t, s.Root, "get", "locations", "-o", "yaml"),
	} {
		if strings.Contains(text, token) {
			s.t.Errorf("the token's secret is in %s", name)
		}
	}
	s.Eventually("the location is in sync", func() error {
		out, err := env.Command{Binary: "orrery", Kubeconfig: s.Root, Args: []string{"location", "describe", location}}.Try(s.t)
		if err != nil {
			return err
		}
		if !regexp.MustCompile(`Synced\s+True`).MatchString(out) {
			return errors.New(out)
		}
		return nil
	})
}
