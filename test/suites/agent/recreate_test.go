package agent_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// recreates is the policy onImmutable: Recreate.
var recreates = wire.Policy{Recreate: true}

// freeze has a ValidatingAdmissionPolicy refuse every update of the site's Deployments by users,
// in words that an API server also has for immutable fields.
func (s *site) freeze() {
	t := s.t
	policies, bindings := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), s.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	fail := admissionregistrationv1.Fail
	namespaces, _ := s.matches("")
	rule := deployments()
	rule.Operations = []admissionregistrationv1.OperationType{"UPDATE"}
	if _, err := policies.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: namespaces,
				ResourceRules:     []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}},
			},
			Validations: []admissionregistrationv1.Validation{{
				Expression: "object.spec.template == oldObject.spec.template",
				Message:    "updates to Deployments are forbidden during the freeze: the image is immutable",
			}},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := bindings.Create(t.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// frozenNow waits until an update of a Deployment's image is refused.
func (s *site) frozenNow(name string) {
	s.t.Helper()
	env.Eventually(s.t, soon, func() error {
		_, err := s.client.AppsV1().Deployments(s.name).Patch(s.t.Context(), name, types.StrategicMergePatchType,
			[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"try"}]}}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("an update is accepted")
		}
		return nil
	})
}

// frozen: what a site's admission refuses is not taken for an immutable field, whatever words
// it has for that: the object is not deleted. Nor is one of which an immutable field changes
// along with what admission refuses.
func frozen(s *site) {
	t := s.t
	image := func(text, name string) string { return strings.Replace(text, `"image":"x"`, `"image":"`+name+`"`, 1) }
	policy, webhook := s.deployment("policy", "nobody"), s.deployment("webhook", "denied")
	s.hub.PutWith(s.deploymentKey("policy"), "uid-p", policy, recreates)
	s.hub.PutWith(s.deploymentKey("webhook"), "uid-w", webhook, recreates)
	s.start()
	s.reports(s.deploymentKey("policy"), wire.Applied, "")
	s.reports(s.deploymentKey("webhook"), wire.Applied, "")
	before := map[string]types.UID{"policy": s.uid("policy"), "webhook": s.uid("webhook")}
	s.freeze()
	s.frozenNow("policy")
	s.deny()

	stays := func(name, image string) {
		t.Helper()
		d, err := s.client.AppsV1().Deployments(s.name).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || d.UID != before[name] || d.Spec.Template.Spec.Containers[0].Image != image {
			t.Errorf("%s is no longer what it was: %v", name, err)
		}
	}
	for name, text := range map[string]string{"policy": policy, "webhook": webhook} {
		s.hub.PutWith(s.deploymentKey(name), "uid-"+name[:1], image(text, "new"), recreates)
		if r := s.reports(s.deploymentKey(name), wire.Failed, "Invalid"); !strings.Contains(r.Message, "freeze") {
			t.Errorf("%s: message %q", name, r.Message)
		}
		stays(name, "x")
	}
	// The API server names the immutable field first, and would refuse the image as well.
	s.hub.PutWith(s.deploymentKey("policy"), "uid-p", image(strings.ReplaceAll(policy, `"app":"a"`, `"app":"b"`), "new"), recreates)
	if r := s.reports(s.deploymentKey("policy"), wire.Failed, v1alpha1.ReasonImmutable); !strings.Contains(r.Message, "not recreated") || !strings.Contains(r.Message, "freeze") {
		t.Errorf("message %q", r.Message)
	}
	stays("policy", "x")
}

func (s *site) uid(deployment string) types.UID {
	s.t.Helper()
	d, err := s.client.AppsV1().Deployments(s.name).Get(s.t.Context(), deployment, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return d.UID
}

// deny has a webhook refuse updates as an API server refuses to change an immutable field.
func (s *site) deny() {
	t := s.t
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: &metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
			Message: `Deployment.apps "webhook" is invalid: spec.selector: field is immutable during the freeze`,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.selector", Message: "field is immutable during the freeze",
			}}},
		}}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	namespaces, objects := s.matches("denied")
	rule := deployments()
	rule.Operations = []admissionregistrationv1.OperationType{"UPDATE"}
	fail, none := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone
	if _, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "freeze.example.org",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			Rules: []admissionregistrationv1.RuleWithOperations{rule}, NamespaceSelector: namespaces, ObjectSelector: objects,
			FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, func() error {
		_, err := s.client.AppsV1().Deployments(s.name).Patch(t.Context(), "webhook", types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"try":"x"}}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			return fmt.Errorf("an update ends in %w", err)
		}
		return nil
	})
}

// fixedMap is an immutable ConfigMap.
func (s *site) fixedMap(name, value string) string {
	return strings.Replace(s.configMap(name, value), `"data"`, `"immutable":true,"data"`, 1)
}

// recreateGuard: each object that is made anew counts as a removal by policy, so those beyond
// what the location allows wait for a confirmation, which names exactly them.
func recreateGuard(s *site) {
	t := s.t
	const many, free = 60, 50
	name := func(i int) string { return fmt.Sprintf("o%d", i) }
	for i := range many {
		s.hub.PutWith(s.key(name(i)), "uid-"+name(i), s.fixedMap(name(i), "1"), recreates)
	}
	s.start()
	for i := range many {
		s.reports(s.key(name(i)), wire.Applied, "")
	}
	have := func(value string) (n int) {
		l, err := s.client.CoreV1().ConfigMaps(s.name).List(t.Context(), metav1.ListOptions{LabelSelector: label})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range l.Items {
			if m.Data["v"] == value {
				n++
			}
		}
		return n
	}
	change := func(value string) {
		for i := range many {
			s.hub.PutWith(s.key(name(i)), "uid-"+name(i), s.fixedMap(name(i), value), recreates)
		}
	}
	are := func(value string, made, wait int) {
		t.Helper()
		env.Eventually(t, soon, func() error {
			waiting := 0
			for i := range many {
				if r, _ := s.hub.Report(s.key(name(i))); r.State == wire.Waiting && r.Reason == v1alpha1.ReasonPruneGuard {
					waiting++
				}
			}
			pending := 0
			if p := s.hub.AgentStatus().Prune; p != nil {
				pending = p.Pending
			}
			if n := have(value); n != made || waiting != wait || pending != wait {
				return fmt.Errorf("%d were made anew, %d wait, and the agent says %d", n, waiting, pending)
			}
			return nil
		})
	}
	change("2")
	are("2", free, many-free)
	// The same content does not count once more, and a restart changes nothing.
	s.halt()
	s.start()
	env.Throughout(t, time.Second, func() error {
		if n := have("2"); n != free {
			return fmt.Errorf("%d were made anew", n)
		}
		return nil
	})
	are("2", free, many-free)
	digest := s.hub.AgentStatus().Prune.Digest
	s.hub.Set(func(now *wire.Settings) { now.Confirm = []wire.Confirmation{{Digest: digest}} })
	are("2", many, 0)
	// What was confirmed lets go nothing that is refused later.
	change("3")
	are("3", 0, many)
	// An object that is desired as the location has it no longer waits.
	change("2")
	are("2", many, 0)
}

// claims: a PersistentVolumeClaim is never deleted to be made anew, however the policy is,
// unless it says so itself at the location, by another than Orrery.
func claims(s *site) {
	t := s.t
	claims := s.client.CoreV1().PersistentVolumeClaims(s.name)
	claim := func(class string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"annotations":{"orrery.dev/recreate":"true"},"name":"c","namespace":%q},
"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":%q}}`, s.name, class)
	}
	set := func(class string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"c","namespace":%q},
"spec":{"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}],"serviceName":%q,"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},"selector":{"matchLabels":{"app":"a"}},"template":{"metadata":{"labels":{"app":"a"}},
"spec":{"containers":[{"image":"x","name":"c"}]}}}}`, s.name, class)
	}
	key, setKey := "team/core/persistentvolumeclaims/"+s.name+"/c", "team/apps/statefulsets/"+s.name+"/c"
	s.hub.PutWith(key, "uid-c", claim("one"), recreates)
	s.hub.PutWith(setKey, "uid-s", set("one"), recreates)
	s.start()
	s.reports(key, wire.Applied, "")
	s.reports(setKey, wire.Applied, "")
	made, err := claims.Get(t.Context(), "c", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.hub.PutWith(key, "uid-c", claim("two"), recreates)
	s.hub.PutWith(setKey, "uid-s", set("two"), recreates)
	for _, k := range []string{key, setKey} {
		if r := s.reports(k, wire.Failed, v1alpha1.ReasonImmutable); !strings.Contains(r.Message, v1alpha1.RecreateAnnotation) {
			t.Errorf("message %q", r.Message)
		}
	}
	if now, err := claims.Get(t.Context(), "c", metav1.GetOptions{}); err != nil || now.UID != made.UID {
		t.Fatalf("it was made anew: %v", err)
	}
	if _, ok := made.Annotations[v1alpha1.RecreateAnnotation]; ok {
		t.Error("the annotation came from the space")
	}
	if _, err := claims.Patch(t.Context(), "c", types.MergePatchType, []byte(`{"metadata":{"annotations":{"orrery.dev/recreate":"true"},"finalizers":null}}`),
		metav1.PatchOptions{FieldManager: "kubectl-annotate"}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(t, soon, func() error {
		now, err := claims.Get(t.Context(), "c", metav1.GetOptions{})
		if err == nil && (now.UID == made.UID || *now.Spec.StorageClassName != "two") {
			err = fmt.Errorf("it is %s of class %s, of %d finalizers", now.UID, *now.Spec.StorageClassName, len(now.Finalizers))
		}
		return err
	})
}
