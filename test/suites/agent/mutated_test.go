package agent_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// mutatedRetry is how long the agent waits here before it tries again what admission changed.
const mutatedRetry = 200 * time.Millisecond

// changedBy is the label of the objects that an admission policy or webhook changes.
const changedBy = "changed-by"

// deployment is a Deployment with two replicas, and a label by which admission knows it.
func (s *site) deployment(name, changer string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{%q:%q},"name":%q,"namespace":%q},
"spec":{"replicas":2,"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
"spec":{"containers":[{"image":"x","name":"c","resources":{"requests":{"cpu":0.5,"memory":"1024Mi"}}}]}}}}`, changedBy, changer, name, s.name)
}

func (s *site) deploymentKey(name string) string {
	return "team/apps/deployments/" + s.name + "/" + name
}

// replicas returns the replicas of a Deployment in the cluster.
func (s *site) replicas(name string, want int32) func() error {
	return func() error {
		d, err := s.client.AppsV1().Deployments(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
		if err == nil && *d.Spec.Replicas != want {
			err = fmt.Errorf("%s has %d replicas, want %d", name, *d.Spec.Replicas, want)
		}
		return err
	}
}

// patches counts how often the agent has applied a Deployment.
func (s *site) patches(name string) int {
	return len(s.c.Requests(s.t, env.Filter{UserAgent: "orrery-agent/" + s.name, Resource: "deployments", Name: name, Verbs: []string{"patch"}}))
}

// mutated: a value that a policy or webhook changes is reported, also after a restart of
// the agent, is applied again and again, and becomes right when they are gone. An object
// that nothing changes is applied once.
func mutated(s *site) {
	t := s.t
	removePolicy, removeWebhook := s.addPolicy(), s.addWebhook()
	for _, changer := range []string{"policy", "webhook", "nobody"} {
		s.hub.Put(s.deploymentKey(changer), "uid-"+changer, s.deployment(changer, changer))
	}
	s.hub.PutWith(s.deploymentKey("left"), "uid-left", s.deployment("left", "policy"), wire.Policy{ReportDrift: true})
	changed := []string{"policy", "webhook", "left"}
	are := func(reason string, replicas int32) {
		t.Helper()
		for _, name := range changed {
			r := s.reports(s.deploymentKey(name), wire.Applied, reason)
			if reason == "Mutated" && !strings.HasSuffix(r.Message, ": .spec.replicas") {
				t.Errorf("%s: message %q", name, r.Message)
			}
			env.Eventually(t, soon, s.replicas(name, replicas))
		}
		s.reports(s.deploymentKey("nobody"), wire.Applied, "")
	}
	s.start()
	are("Mutated", 3)
	env.Eventually(t, soon, func() error {
		if n := s.patches("policy"); n < 3 {
			return fmt.Errorf("applied %d times", n)
		}
		return nil
	})
	s.halt()
	before := s.patches("webhook")
	s.start()
	env.Eventually(t, soon, func() error {
		if n := s.patches("webhook"); n <= before {
			return fmt.Errorf("applied %d times, as before", n)
		}
		return nil
	})
	are("Mutated", 3)

	removePolicy()
	removeWebhook()
	env.Eventually(t, patient, func() error { // the waits between tries grow with the time that has passed
		for _, name := range changed {
			if r, _ := s.hub.Report(s.deploymentKey(name)); r.Reason != "" {
				return fmt.Errorf("%s is %+v", name, r)
			}
		}
		return nil
	})
	are("", 2)
	applied := func() (n int) {
		for _, name := range changed {
			n += s.patches(name)
		}
		return n
	}
	n := applied()
	env.Throughout(t, 10*mutatedRetry, func() error {
		if now := applied(); now != n {
			return fmt.Errorf("what is right was applied %d times more", now-n)
		}
		return nil
	})
	if n := s.patches("nobody"); n != 1 {
		t.Errorf("what nobody changes was applied %d times", n)
	}
}

// mutatedForGood: if a policy changes an immutable field, that is reported, and the object
// is not recreated, which would not help.
func mutatedForGood(s *site) {
	t := s.t
	namespaces, _ := s.matches("")
	remove := s.putPolicy(admissionregistrationv1.MatchResources{
		NamespaceSelector: namespaces,
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{"CREATE"},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"persistentvolumeclaims"}},
		}}},
	}, `Object{spec: Object.spec{storageClassName: "theirs"}}`)
	defer remove()
	claims := s.client.CoreV1().PersistentVolumeClaims(s.name)
	claim := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":%q,"namespace":%q},
"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"ours"}}`, name, s.name)
	}
	s.makeNamespace()
	env.Eventually(t, soon, func() error { // until the policy is in force
		var c corev1.PersistentVolumeClaim
		if err := json.Unmarshal([]byte(claim("try")), &c); err != nil {
			return err
		}
		made, err := claims.Create(t.Context(), &c, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && *made.Spec.StorageClassName != "theirs" {
			err = fmt.Errorf("admission leaves %q", *made.Spec.StorageClassName)
		}
		return err
	})
	key := "team/core/persistentvolumeclaims/" + s.name + "/c"
	s.hub.PutWith(key, "uid-c", claim("c"), wire.Policy{Recreate: true})
	s.start()
	s.reports(key, wire.Applied, v1alpha1.ReasonMutated)
	made, err := claims.Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tries := func() int {
		return len(s.c.Requests(t, env.Filter{UserAgent: "orrery-agent/" + s.name, Resource: "persistentvolumeclaims", Name: "c", Writes: true}))
	}
	env.Eventually(t, soon, func() error {
		if n := tries(); n < 4 {
			return fmt.Errorf("tried %d times", n)
		}
		return nil
	})
	if r := s.reports(key, wire.Applied, v1alpha1.ReasonMutated); !strings.HasSuffix(r.Message, ": .spec.storageClassName") {
		t.Errorf("message %q", r.Message)
	}
	if now, err := claims.Get(t.Context(), "c", metav1.GetOptions{}); err != nil || now.UID != made.UID {
		t.Errorf("it was made anew: %v", err)
	}
}

// matches selects the Deployments of the site that a changer mutates.
func (s *site) matches(changer string) (namespaces, objects *metav1.LabelSelector) {
	return metav1.AddLabelToSelector(&metav1.LabelSelector{}, "kubernetes.io/metadata.name", s.name),
		metav1.AddLabelToSelector(&metav1.LabelSelector{}, changedBy, changer)
}

func deployments() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
	}
}

// addPolicy has an admission policy set three replicas.
func (s *site) addPolicy() (remove func()) {
	namespaces, objects := s.matches("policy")
	remove = s.putPolicy(admissionregistrationv1.MatchResources{
		NamespaceSelector: namespaces, ObjectSelector: objects,
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: deployments()}},
	}, "Object{spec: Object.spec{replicas: 3}}")
	s.changes("policy", 3)
	return remove
}

// putPolicy creates an admission policy with the name of the site.
func (s *site) putPolicy(match admissionregistrationv1.MatchResources, expression string) (remove func()) {
	t, name := s.t, s.name
	policies, bindings := s.client.AdmissionregistrationV1().MutatingAdmissionPolicies(), s.client.AdmissionregistrationV1().MutatingAdmissionPolicyBindings()
	fail, never := admissionregistrationv1.Fail, admissionregistrationv1.NeverReinvocationPolicy
	if _, err := policies.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			FailurePolicy: &fail, ReinvocationPolicy: never,
			MatchConstraints: &match,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: expression},
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := policies.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// changes waits until admission changes what it is to change.
func (s *site) changes(changer string, want int32) {
	s.t.Helper()
	s.makeNamespace()
	env.Eventually(s.t, soon, func() error {
		var d struct {
			Spec struct {
				Replicas int32 `json:"replicas"`
			} `json:"spec"`
		}
		b, err := s.client.AppsV1().RESTClient().Post().Namespace(s.name).Resource("deployments").Param("dryRun", "All").
			Body([]byte(s.deployment("try", changer))).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").DoRaw(s.t.Context())
		if err == nil {
			err = json.Unmarshal(b, &d)
		}
		if err == nil && d.Spec.Replicas != want {
			err = fmt.Errorf("admission makes %d replicas", d.Spec.Replicas)
		}
		return err
	})
}

func (s *site) makeNamespace() {
	s.t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	if _, err := s.client.CoreV1().Namespaces().Create(s.t.Context(), namespace, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
}

// addWebhook has a webhook set three replicas.
func (s *site) addWebhook() (remove func()) {
	t := s.t
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		jsonPatch := admissionv1.PatchTypeJSONPatch
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Allowed: true, PatchType: &jsonPatch,
			Patch: []byte(`[{"op":"replace","path":"/spec/replicas","value":3}]`),
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	namespaces, objects := s.matches("webhook")
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	hooks := s.client.AdmissionregistrationV1().MutatingWebhookConfigurations()
	if _, err := hooks.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "replicas.example.org",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{deployments()}, NamespaceSelector: namespaces, ObjectSelector: objects,
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.changes("webhook", 3)
	return func() {
		if err := hooks.Delete(t.Context(), s.name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
