package agent_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// patient is for what the agent tries again at most once a minute, or once in five if it may not observe it.
const patient = 5*time.Minute + env.Soon

// tenants is the namespace of the ServiceAccounts that act for objects.
const tenants = "tenants"

// TestRights: objects that a ServiceAccount is in charge of, with an agent that itself may
// only observe, and act as those ServiceAccounts.
func TestRights(t *testing.T) {
	c := env.StartCluster(t, "rights", env.APIOnly())
	w := &rights{newSite(t, c, "web")}
	w.namespace(tenants)
	w.namespace("web")
	w.site.config = w.restricted()
	w.allow("a", rule("", "configmaps", "get", "create", "patch", "delete"), rule("", "services", "create", "patch", "delete"))
	w.start()

	for _, step := range []struct {
		name string
		run  func(*rights)
	}{
		{"What goes there", (*rights).whatGoes},
		{"What comes back", (*rights).whatComesBack},
		{"Ways up", (*rights).waysUp},
		{"Rights are taken away", (*rights).takenAway},
		{"Another account", (*rights).another},
		{"Removal", (*rights).removal},
		{"The store is lost", (*rights).storeIsLost},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			before := w.t
			defer func() { w.t = before }()
			w.t = t
			step.run(w)
		}) {
			return
		}
	}
}

type rights struct{ *site }

func rule(group, resource string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
}

func (w *rights) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *rights) namespace(name string) {
	w.t.Helper()
	_, err := w.client.CoreV1().Namespaces().Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.ok(err)
}

// restricted is the configuration of an agent that may observe, and act as a and b.
func (w *rights) restricted() *rest.Config {
	w.t.Helper()
	ctx, agent := w.t.Context(), metav1.ObjectMeta{Name: "agent", Namespace: tenants}
	_, err := w.client.CoreV1().ServiceAccounts(tenants).Create(ctx, &corev1.ServiceAccount{ObjectMeta: agent}, metav1.CreateOptions{})
	w.ok(err)
	impersonate := rule("", "serviceaccounts", "impersonate")
	impersonate.ResourceNames = []string{"a", "b"}
	_, err = w.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: agent, Rules: []rbacv1.PolicyRule{
		rule("", "configmaps", "list", "watch"), rule("", "services", "list", "watch"),
		rule(rbacv1.GroupName, "clusterrolebindings", "list", "watch"), rule("coordination.k8s.io", "leases", "list", "watch"), impersonate,
	}}, metav1.CreateOptions{})
	w.ok(err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: agent, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agent.Name}, Subjects: account(agent.Name),
	}, metav1.CreateOptions{})
	w.ok(err)
	token, err := w.client.CoreV1().ServiceAccounts(tenants).CreateToken(ctx, agent.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.ok(err)
	config := rest.AnonymousClientConfig(w.c.Config)
	config.BearerToken = token.Status.Token
	return config
}

func account(name string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: tenants, Name: name}}
}

// allow replaces what an account may do in a namespace.
func (w *rights) allow(name string, rules ...rbacv1.PolicyRule) {
	w.t.Helper()
	const namespace = "web"
	ctx, as := w.t.Context(), metav1.ObjectMeta{Name: name, Namespace: namespace}
	role := &rbacv1.Role{ObjectMeta: as, Rules: rules}
	_, err := w.client.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = w.client.RbacV1().Roles(namespace).Update(ctx, role, metav1.UpdateOptions{})
	} else if err == nil {
		_, err = w.client.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: as, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name}, Subjects: account(name),
		}, metav1.CreateOptions{})
	}
	w.ok(err)
}

// reported waits for a report.
func (w *rights) reported(key string, state wire.State, reason string) (r wire.Report) {
	w.t.Helper()
	env.Eventually(w.t, patient, func() error {
		var ok bool
		if r, ok = w.hub.Report(key); !ok || r.State != state || r.Reason != reason {
			return fmt.Errorf("report of %s: %+v", key, r)
		}
		return nil
	})
	return r
}

// as is the policy of an account.
func as(name string) wire.Policy { return wire.Policy{ServiceAccount: tenants + "/" + name} }

func (w *rights) whatGoes() {
	w.hub.PutWith(w.key("x"), "uid-x", w.configMap("x", "1"), as("a"))
	w.hub.PutWith(w.key("own"), "uid-own", w.configMap("own", "1"), wire.Policy{})
	elsewhere := strings.ReplaceAll(w.configMap("y", "1"), `"namespace":"web"`, `"namespace":"elsewhere"`)
	w.hub.PutWith("team/core/configmaps/elsewhere/y", "uid-y", elsewhere, as("a"))
	const binding = `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"mine"},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[]}`
	w.hub.PutWith("team/rbac.authorization.k8s.io/clusterrolebindings/mine", "uid-z", binding, as("a"))

	w.reported(w.key("x"), wire.Applied, "")
	env.Eventually(w.t, soon, w.hasValue("x", "1"))
	for _, k := range []string{"team/core/configmaps/elsewhere/y", "team/rbac.authorization.k8s.io/clusterrolebindings/mine"} {
		if r := w.reported(k, wire.Failed, "Forbidden"); !strings.Contains(r.Message, "system:serviceaccount:tenants:a") {
			w.t.Errorf("%s: the message is %q", k, r.Message)
		}
	}
	if r := w.reported(w.key("own"), wire.Failed, "Forbidden"); !strings.Contains(r.Message, "system:serviceaccount:tenants:agent") {
		w.t.Errorf("what nobody acts for: the message is %q", r.Message)
	}
	if _, err := w.client.CoreV1().Namespaces().Get(w.t.Context(), "elsewhere", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		w.t.Errorf("a namespace that the account may not create: %v", err)
	}
	_, err := w.client.CoreV1().ConfigMaps("web").Patch(w.t.Context(), "x", types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{})
	w.ok(err)
	env.Eventually(w.t, soon, w.hasValue("x", "1"))
	w.asksSeldom()
	w.alike(w.key("x"), true)
	a := w.inspect("team/core/configmaps/elsewhere/y", true) // the agent reads it with the rights of the space's ServiceAccount
	if a.Reason != "Forbidden" || !strings.Contains(a.Message, "system:serviceaccount:tenants:a") || a.Live != nil {
		w.t.Errorf("the agent returns an object that the ServiceAccount may not read: %+v", a)
	}
}

// asksSeldom: refusals do not loop.
func (w *rights) asksSeldom() {
	w.t.Helper()
	env.Eventually(w.t, patient, func() error { // the waits between tries have grown by then
		before := len(w.c.Requests(w.t, env.Filter{UserAgent: "orrery-agent/" + w.name, Writes: true}))
		<-time.After(5 * time.Second)
		if n := len(w.c.Requests(w.t, env.Filter{UserAgent: "orrery-agent/" + w.name, Writes: true})) - before; n > 3 {
			return fmt.Errorf("%d writes in 5 seconds", n)
		}
		return nil
	})
}

// waysUp: an account that may write what gives rights gets no further than it is.
func (w *rights) waysUp() {
	configMaps := rule("", "configmaps", "get", "create", "patch", "delete")
	write := []string{"get", "create", "patch", "delete"}
	w.allow("a", configMaps, rule("", "services", "create", "patch", "delete"), rule(rbacv1.GroupName, "rolebindings", write...), rule(rbacv1.GroupName, "roles", write...))
	ctx := w.t.Context()
	wide := metav1.ObjectMeta{Name: "a-everywhere"}
	_, err := w.client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: wide, Rules: []rbacv1.PolicyRule{rule("", "configmaps", "create", "patch", "get")}}, metav1.CreateOptions{})
	w.ok(err)
	_, err = w.client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: wide, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wide.Name}, Subjects: account("a"),
	}, metav1.CreateOptions{})
	w.ok(err)
	const meta = `"metadata":{"name":"up","namespace":"web"}`
	const everything = `"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]`
	const forAgent = `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":[{"kind":"ServiceAccount","name":"a","namespace":"tenants"}]`
	for key, object := range map[string]string{
		"rbac.authorization.k8s.io/rolebindings/web/up":                   `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",` + meta + `,` + forAgent + `}`,
		"rbac.authorization.k8s.io/roles/web/up":                          `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",` + meta + `,` + everything + `}`,
		"rbac.authorization.k8s.io/clusterroles/up":                       `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"up","labels":{"rbac.authorization.k8s.io/aggregate-to-admin":"true"}},` + everything + `}`,
		"core/secrets/tenants/up":                                         `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"up","namespace":"tenants","annotations":{"kubernetes.io/service-account.name":"agent"}},"type":"kubernetes.io/service-account-token"}`,
		"core/pods/web/up":                                                `{"apiVersion":"v1","kind":"Pod",` + meta + `,"spec":{"containers":[{"name":"c","image":"i"}],"volumes":[{"name":"h","hostPath":{"path":"/"}}]}}`,
		"core/namespaces/up":                                              `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"up"}}`,
		"apiextensions.k8s.io/customresourcedefinitions/ups.example.org":  `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"ups.example.org"},"spec":{"group":"example.org","scope":"Namespaced","names":{"plural":"ups","kind":"Up"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		"admissionregistration.k8s.io/validatingwebhookconfigurations/up": `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"up"}}`,
		"core/serviceaccounts/tenants/agent":                              `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"agent","namespace":"tenants","labels":{"x":"y"}}}`,
	} {
		policy := as("a")
		policy.Adopt = true
		w.hub.PutWith("team/"+key, "uid-up", object, policy)
		if r := w.reported("team/"+key, wire.Failed, "Forbidden"); !strings.Contains(r.Message, "system:serviceaccount:tenants:a") {
			w.t.Errorf("%s: the message is %q", key, r.Message)
		}
	}
	// A namespace that it may not make is not asked for again and again within one try.
	const homeless = "team/core/configmaps/missing/homeless"
	w.hub.PutWith(homeless, "uid-h", strings.ReplaceAll(w.configMap("homeless", "1"), `"namespace":"web"`, `"namespace":"missing"`), as("a"))
	w.reported(homeless, wire.Failed, "NotFound")
	env.Eventually(w.t, patient, func() error {
		tries := w.c.Requests(w.t, env.Filter{UserAgent: "orrery-agent/" + w.name, Resource: "configmaps", Name: "homeless", Verbs: []string{"patch"}})
		if len(tries) < 2 {
			return fmt.Errorf("%d tries", len(tries))
		}
		for i := range len(tries) - 1 {
			if wait := tries[i+1].Received.Sub(tries[i].Received); wait < 200*time.Millisecond {
				w.t.Fatalf("it was tried again after %v", wait)
			}
		}
		return nil
	})
	w.ok(w.client.RbacV1().ClusterRoleBindings().Delete(ctx, wide.Name, metav1.DeleteOptions{}))
	w.allow("a", configMaps)
}

// takenAway: what an account may no longer do stays as it is, is reported, and not done with
// the agent's rights; it goes on when it may.
func (w *rights) takenAway() {
	ctx := w.t.Context()
	w.allow("a", rule("", "services", "get"))
	_, err := w.client.CoreV1().ConfigMaps("web").Patch(ctx, "x", types.MergePatchType, []byte(`{"data":{"v":"tampered"}}`), metav1.PatchOptions{})
	w.ok(err)
	w.reported(w.key("x"), wire.Failed, "Forbidden")
	w.hub.PutWith(w.key("x"), "uid-x", w.configMap("x", "2"), as("a"))
	w.reported(w.key("x"), wire.Failed, "Forbidden")
	w.ok(w.hasValue("x", "tampered")())
	w.asksSeldom()
	w.allow("a", rule("", "configmaps", "get", "create", "patch", "delete"))
	w.reported(w.key("x"), wire.Applied, "")
	w.ok(w.hasValue("x", "2")())
	w.hub.PutWith(w.key("x"), "uid-x", w.configMap("x", "1"), as("a"))
	env.Eventually(w.t, soon, w.hasValue("x", "1"))
}

const serviceKey = "team/core/services/web/s"

func (w *rights) whatComesBack() {
	policy := as("a")
	policy.ReturnStatus = true
	const service = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":"web"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`
	setStatus := func(ip string) {
		w.t.Helper()
		_, err := w.client.CoreV1().Services("web").Patch(w.t.Context(), "s", types.MergePatchType,
			fmt.Appendf(nil, `{"status":{"loadBalancer":{"ingress":[{"ip":%q}]}}}`, ip), metav1.PatchOptions{}, "status")
		w.ok(err)
	}
	silent := func(r wire.Report) {
		w.t.Helper()
		if len(r.Status) > 0 || r.StatusBytes > 0 || !strings.Contains(r.Message, "system:serviceaccount:tenants:a") {
			w.t.Fatalf("what the account may not read is reported as %+v", r)
		}
	}
	w.hub.PutWith(serviceKey, "uid-s", service, policy)
	silent(w.reported(serviceKey, wire.Failed, "Forbidden"))
	setStatus("192.0.2.1")
	env.Throughout(w.t, 2*time.Second, func() error {
		if r, _ := w.hub.Report(serviceKey); len(r.Status) > 0 {
			return fmt.Errorf("the status comes back: %s", r.Status)
		}
		return nil
	})
	configMaps := rule("", "configmaps", "get", "create", "patch", "delete")
	w.allow("a", configMaps, rule("", "services", "get", "create", "patch", "delete"))
	if r := w.reported(serviceKey, wire.Applied, ""); !strings.Contains(string(r.Status), "192.0.2.1") {
		w.t.Fatalf("what the account may read is reported as %+v", r)
	}
	w.allow("a", configMaps, rule("", "services", "create", "patch", "delete"))
	setStatus("192.0.2.2")
	silent(w.reported(serviceKey, wire.Failed, "Forbidden"))
}

func (w *rights) another() {
	w.hub.PutWith(w.key("x"), "uid-x", w.configMap("x", "1"), as("b"))
	if r := w.reported(w.key("x"), wire.Failed, "Forbidden"); !strings.Contains(r.Message, "system:serviceaccount:tenants:b") {
		w.t.Errorf("the message is %q", r.Message)
	}
	w.ok(w.hasValue("x", "1")())
	w.allow("b", rule("", "configmaps", "get", "create", "patch"))
	w.reported(w.key("x"), wire.Applied, "")
	m, err := w.get("x")
	w.ok(err)
	if got := m.Annotations["orrery.dev/service-account"]; got != "tenants/b" {
		w.t.Errorf("it is marked as made by %q", got)
	}
}

func (w *rights) removal() {
	w.hub.Del(w.key("x"), wire.Deleted)
	if r := w.reported(w.key("x"), wire.Removing, "Forbidden"); !strings.Contains(r.Message, "system:serviceaccount:tenants:b") {
		w.t.Errorf("the message is %q", r.Message)
	}
	w.ok(w.hasValue("x", "1")())
	w.allow("b", rule("", "configmaps", "get", "create", "patch", "delete"))
	env.Eventually(w.t, patient, w.gone("x"))
}

func (w *rights) storeIsLost() {
	w.hub.PutWith(w.key("stray"), "uid-stray", w.configMap("stray", "1"), as("b"))
	w.reported(w.key("stray"), wire.Applied, "")
	w.hub.PutWith(w.key("kept"), "uid-kept", w.configMap("kept", "1"), as("b"))
	w.reported(w.key("kept"), wire.Applied, "")
	w.halt()
	w.ok(os.RemoveAll(w.dir))
	w.hub.Del(w.key("stray"), wire.Deleted)
	w.start()
	env.Eventually(w.t, patient, w.gone("stray"))
	w.reported(w.key("kept"), wire.Applied, "")
	if _, err := w.get("kept"); err != nil {
		w.t.Error(errors.Join(errors.New("what is desired"), err))
	}
}
