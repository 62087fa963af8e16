package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// patient is for what an agent tries again at most once a minute, or once in five if it may not observe it.
const patient = 5*time.Minute + env.Soon

// tenantsYAML is what the operators of the cluster give to tenants: web has ConfigMaps in
// one namespace, data also Secrets and Services that it can't read.
const tenantsYAML = `
kind: Namespace
apiVersion: v1
metadata: {name: tenants}
---
kind: Namespace
apiVersion: v1
metadata: {name: web}
---
kind: Namespace
apiVersion: v1
metadata: {name: data}
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: tenant, namespace: web}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}]
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: tenant, namespace: web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, namespace: tenants, name: web}]
---
kind: Role
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: tenant, namespace: data}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, create, patch, delete]}
- {apiGroups: [""], resources: [secrets, services], verbs: [create, patch, delete]}
---
kind: RoleBinding
apiVersion: rbac.authorization.k8s.io/v1
metadata: {name: tenant, namespace: data}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tenant}
subjects: [{kind: ServiceAccount, namespace: tenants, name: data}]
`

const admitJSON = `{"spec":{"admit":[
	{"spaces":{"names":["web"]},"impersonate":{"serviceAccount":"tenants/web"}},
	{"spaces":{"names":["data"]},"kinds":[{"apiGroup":"","resources":["configmaps","secrets","services"]}],"impersonate":{"serviceAccount":"tenants/data"}},
	{"spaces":{"names":["platform"]}}]}}`

// placedYAML places at the site what is labelled, of which a ClusterRoleBinding.
const placedYAML = `
apiVersion: orrery.dev/v1alpha1
kind: Placement
metadata: {name: all}
spec:
  locations: [{names: [site]}]
  downsync: [{labelSelectors: [{matchLabels: {placed: "yes"}}], returnStatus: Singleton}]
---
apiVersion: v1
kind: Namespace
metadata: {name: NS}
---
apiVersion: v1
kind: ConfigMap
metadata: {namespace: NS, name: x, labels: {placed: "yes"}}
data: {of: SPACE}
`

const bindingYAML = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: of-SPACE, labels: {placed: "yes"}}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: me}]
`

const unreadableYAML = `---
apiVersion: v1
kind: Secret
metadata: {namespace: data, name: hush, labels: {placed: "yes"}}
stringData: {k: v}
---
apiVersion: v1
kind: Service
metadata: {namespace: data, name: s, labels: {placed: "yes"}}
spec: {ports: [{port: 80}]}
`

// tenancy is a world with a site that spaces share.
type tenancy struct {
	*world.World
	t       *testing.T
	cluster *env.Cluster
	agent   *env.Agent
	spaces  map[string]string // kubeconfigs
}

// TestRights shows that spaces never get more at a location than its admission and the rights of
// their ServiceAccounts allow. The agent has exactly the rights that orrery-agent rbac derives from
// the assigned objects.
func TestRights(t *testing.T) {
	w := &tenancy{World: world.New(t), t: t, cluster: env.StartCluster(t, "site", env.APIOnly()), spaces: map[string]string{}}
	env.KubectlIn(t, w.cluster.Kubeconfig, tenantsYAML, "apply", "-f", "-")
	env.Orrery(t, w.Root, "location", "add", "site")
	env.Kubectl(t, w.Root, "patch", "location", "site", "--type=merge", "-p", admitJSON)
	for _, s := range []struct{ space, namespace, more string }{
		{"web", "web", bindingYAML}, {"data", "data", bindingYAML + unreadableYAML}, {"platform", "ours", ""}, {"other", "web", ""},
	} {
		w.spaces[s.space] = w.AddSpace(s.space)
		yaml := strings.NewReplacer("SPACE", s.space, "NS", s.namespace).Replace(placedYAML + s.more)
		env.KubectlIn(t, w.spaces[s.space], yaml, "apply", "--server-side", "-f", "-")
	}
	w.start()
	w.derive()
	w.answers()
	w.shown()
	w.leastRights()
}

// start starts the agent with a ServiceAccount that may nothing.
func (w *tenancy) start() {
	w.t.Helper()
	w.rbac("rbac", "nothing.example.org")
	token, err := w.cluster.Client.CoreV1().ServiceAccounts("orrery-system").CreateToken(w.t.Context(), "orrery-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	config, err := clientcmd.LoadFromFile(w.cluster.Kubeconfig)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token = token.Status.Token
	}
	file := filepath.Join(w.t.TempDir(), "agent.kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		w.t.Fatal(err)
	}
	w.agent = env.StartAgent(w.t, "site", w.Token("site"), file)
}

// rbac applies what the command prints, and returns it.
func (w *tenancy) rbac(args ...string) string {
	w.t.Helper()
	out := env.Command{Binary: "orrery-agent", Args: args, Kubeconfig: w.cluster.Kubeconfig}.Run(w.t)
	env.KubectlIn(w.t, w.cluster.Kubeconfig, out, "apply", "-f", "-")
	return out
}

// derive grants the agent the rights for the assigned objects, once the agent knows these.
func (w *tenancy) derive() {
	w.t.Helper()
	placed := []string{"rbac", "--placed", "--data-dir", w.agent.Dir}
	env.Eventually(w.t, patient, func() error {
		out, err := env.Command{Binary: "orrery-agent", Args: placed, Kubeconfig: w.cluster.Kubeconfig}.Try(w.t)
		for _, text := range []string{"secrets", "services", "configmaps", "clusterrolebindings", "- web\n", "- data\n", "namespace: tenants"} {
			if err == nil && !strings.Contains(out, text) {
				err = fmt.Errorf("no %q in %s", text, out)
			}
		}
		return err
	})
	if out := w.rbac(placed...); strings.Contains(out, "'*'") {
		w.t.Fatalf("the least role is\n%s", out)
	}
}

// explains waits until orrery why prints some texts for an object at the site.
func (w *tenancy) explains(space, what, namespace string, texts ...string) {
	w.t.Helper()
	args := []string{"why", what, "--location", "site"}
	if namespace != "" {
		args = append(args, "-n", namespace)
	}
	env.Eventually(w.t, patient, func() error {
		out, err := env.Command{Binary: "orrery", Args: args, Kubeconfig: w.spaces[space]}.Try(w.t)
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return errors.Join(fmt.Errorf("%s in %s: no %q in %s", what, space, text, out), err)
			}
		}
		return nil
	})
}

// answers checks that allowed objects are applied with the rights of the configured ServiceAccounts,
// and that orrery why explains each rejected object.
func (w *tenancy) answers() {
	w.t.Helper()
	w.explains("web", "configmap/x", "web", "Applied", "ServiceAccount tenants/web acts for it")
	w.explains("data", "configmap/x", "data", "Applied", "ServiceAccount tenants/data acts for it")
	w.explains("data", "secret/hush", "data", "Applied")
	w.explains("platform", "configmap/x", "ours", "Applied")
	w.explains("web", "clusterrolebinding/of-web", "", "Forbidden", "system:serviceaccount:tenants:web")
	w.explains("data", "clusterrolebinding/of-data", "", "NotAdmitted", "admit[1]: kinds")
	w.explains("data", "service/s", "data", "Forbidden", "system:serviceaccount:tenants:data")
	w.explains("other", "configmap/x", "web", `does not exist, or accepts nothing of space "other"`)
	env.Kubectl(w.t, w.cluster.Kubeconfig, "patch", "service", "s", "-n", "data", "--subresource=status", "--type=merge", "-p",
		`{"status":{"conditions":[{"type":"Seen","status":"True","reason":"Hush","message":"","lastTransitionTime":"2030-01-01T00:00:00Z"}]}}`)
	env.Throughout(w.t, 3*time.Second, func() error {
		got, err := env.TryKubectl(w.t, w.spaces["data"], "get", "service", "s", "-n", "data", "-o", "yaml")
		if err != nil {
			return err
		}
		if strings.Contains(got, "Hush") {
			return fmt.Errorf("a status that the account may not read comes back: %s", got)
		}
		return nil
	})
	if got := env.Kubectl(w.t, w.cluster.Kubeconfig, "get", "configmap", "x", "-n", "web", "-o", "jsonpath={.data.of}"); got != "web" {
		w.t.Errorf("the cluster has the ConfigMap of %q", got)
	}
	for _, name := range []string{"of-web", "of-data"} {
		env.KubectlFails(w.t, w.cluster.Kubeconfig, "get", "clusterrolebinding", name)
	}
}

// shown checks the locations that a space can list, and the status of its Placement.
func (w *tenancy) shown() {
	w.t.Helper()
	for space, want := range map[string]string{"web": "site", "data": "site", "platform": "site", "other": ""} {
		if got := env.Kubectl(w.t, w.spaces[space], "get", "locations", "-o", "jsonpath={.items[*].metadata.name}"); got != want {
			w.t.Errorf("space %s sees the locations %q, want %q", space, got, want)
		}
	}
	for space, want := range map[string]string{
		"web":   "ClusterRoleBinding Forbidden",
		"data":  "NotAdmitted Forbidden",
		"other": "LocationsKnown NoSuchLocation",
	} {
		env.Eventually(w.t, patient, func() error {
			got, err := env.TryKubectl(w.t, w.spaces[space], "get", "placement", "all", "-o", "jsonpath={.status.failed} {.status.errors} {.status.conditions}")
			if err != nil {
				return err
			}
			for text := range strings.FieldsSeq(want) {
				if !strings.Contains(strings.ToLower(got), strings.ToLower(text)) {
					return fmt.Errorf("the status of space %s: %s, without %s", space, got, text)
				}
			}
			return nil
		})
	}
}

// leastRights: without any one of the rules something is not as it should be.
func (w *tenancy) leastRights() {
	w.t.Helper()
	env.Kubectl(w.t, w.cluster.Kubeconfig, "patch", "role", "tenant", "-n", "data", "--type=json", "-p",
		`[{"op":"add","path":"/rules/-","value":{"apiGroups":[""],"resources":["services"],"verbs":["get"]}}]`)
	w.explains("data", "service/s", "data", "Applied")
	roles := w.cluster.Client.RbacV1()
	ctx := w.t.Context()
	all, err := roles.ClusterRoles().Get(ctx, "orrery-agent", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i, rule := range all.Rules {
		if len(rule.NonResourceURLs) > 0 { // everybody may discover, unless a cluster takes that away
			continue
		}
		if rule.Resources[0] == "clusterrolebindings" { // all are refused, so there is nothing to observe
			continue
		}
		less := all.DeepCopy()
		less.Rules = append(less.Rules[:i:i], less.Rules[i+1:]...)
		less.ResourceVersion = ""
		if _, err := roles.ClusterRoles().Update(ctx, less, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.agent.Restart()
		// What is new needs a namespace, too.
		fresh := strings.NewReplacer("SPACE", "platform", "NS", fmt.Sprint("fresh", i)).Replace(placedYAML)
		env.KubectlIn(w.t, w.spaces["platform"], fresh, "apply", "--server-side", "-f", "-")
		env.Eventually(w.t, patient, func() error {
			for _, kubeconfig := range w.spaces {
				out, err := env.Command{Binary: "orrery", Kubeconfig: kubeconfig, Args: []string{"status"}}.Try(w.t)
				if err != nil {
					return err
				}
				if strings.Contains(out, "Unobserved") || strings.Contains(out, "not found") || strings.Contains(out, "system:serviceaccount:orrery-system:orrery-agent") {
					return nil
				}
			}
			// Without the Leases it does nothing, which is the location's to say.
			out, err := env.TryKubectl(w.t, w.Root, "get", "location", "site", "-o", "yaml")
			if err != nil {
				return err
			}
			if strings.Contains(out, "may not list and watch the Leases") {
				return nil
			}
			return fmt.Errorf("without %+v all is well", rule)
		})
		all.ResourceVersion = ""
		if _, err := roles.ClusterRoles().Update(ctx, all, metav1.UpdateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.explains("platform", "configmap/x", fmt.Sprint("fresh", i), "Applied")
	}
	if err := roles.Roles("tenants").Delete(ctx, "orrery-agent-impersonates", metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	env.Kubectl(w.t, w.spaces["web"], "patch", "configmap", "x", "-n", "web", "--type=merge", "-p", `{"data":{"more":"x"}}`)
	w.explains("web", "configmap/x", "web", "Forbidden", "impersonate")
}
