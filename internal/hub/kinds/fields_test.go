package kinds_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/hub/kinds"
)

func TestSelectableFields(t *testing.T) {
	byKind := map[string]*kinds.Kind{}
	for _, k := range builtins(t) {
		byKind[k.GVR.GroupVersion().String()+" "+k.GVK.Kind] = k
	}
	for _, c := range []struct {
		kind, object, selector string
		want                   bool
	}{
		{"v1 Pod", `{"metadata":{"name":"a","namespace":"n"},"spec":{"nodeName":"x"},"status":{"phase":"Running"}}`, "spec.nodeName=x,status.phase!=Failed,metadata.namespace=n", true},
		{"v1 Pod", `{"spec":{}}`, "spec.nodeName=,spec.hostNetwork=false", true},
		{"v1 Pod", `{"spec":{"hostNetwork":true}}`, "spec.hostNetwork=true", true},
		{"v1 Pod", `{"status":{"podIP":"10.0.0.1"}}`, "status.podIP=10.0.0.1,status.podIPs=10.0.0.1", true},
		{"v1 Pod", `{"status":{"phase":"Failed"}}`, "status.phase!=Failed", false},
		{"v1 Node", `{"spec":{}}`, "spec.unschedulable=false", true},
		{"v1 Secret", `{"type":"Opaque"}`, "type!=Opaque", false},
		{"v1 Namespace", `{"status":{"phase":"Active"}}`, "status.phase=Active", true},
		{"v1 Service", `{"spec":{"clusterIP":"None"}}`, "spec.clusterIP=None", true},
		{"v1 ReplicationController", `{"status":{"replicas":3}}`, "status.replicas=3", true},
		{"batch/v1 Job", `{"status":{}}`, "status.successful=0", true},
		{"batch/v1 Job", `{"status":{"succeeded":2}}`, "status.successful=2", true},
		{"v1 Event", `{"involvedObject":{"kind":"Pod","name":"a"},"source":{"component":"kubelet"},"type":"Warning"}`, "involvedObject.name=a,involvedObject.kind=Pod,type=Warning,source=kubelet", true},
		{"v1 Event", `{"reportingComponent":"c"}`, "source=c,reportingComponent=c", true},
		{"events.k8s.io/v1 Event", `{"involvedObject":{"kind":"Pod","name":"a"},"reportingComponent":"c"}`, "regarding.name=a,reportingController=c", true},
		{"certificates.k8s.io/v1 CertificateSigningRequest", `{"spec":{"signerName":"s"}}`, "spec.signerName=s", true},
		{"resource.k8s.io/v1 ResourceSlice", `{"spec":{"nodeName":"n","driver":"d"}}`, "spec.nodeName=n,spec.driver=d", true},
		{"v1 ConfigMap", `{"metadata":{"name":"a"}}`, "metadata.name=b", false},
	} {
		k := byKind[c.kind]
		selector := fields.ParseSelectorOrDie(c.selector)
		if err := k.CheckFields(selector); err != nil {
			t.Errorf("%s by %s: %v", c.kind, c.selector, err)
		}
		for _, r := range selector.Requirements() {
			if label, _, err := k.Scope("").Convertor.ConvertFieldLabel(k.GVK, r.Field, r.Value); err != nil || label != r.Field {
				t.Errorf("%s by %s: a handler gets %q, %v", c.kind, r.Field, label, err)
			}
		}
		typed := k.New()
		if err := yaml.Unmarshal([]byte(c.object), typed); err != nil {
			t.Fatal(err)
		}
		loose := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &loose.Object); err != nil {
			t.Fatal(err)
		}
		for _, obj := range []runtime.Object{typed, loose} {
			_, set, err := k.SelectableFields(obj)
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.Matches(set); got != c.want {
				t.Errorf("%s %s by %s: %T matches: %v, want %v (%v)", c.kind, c.object, c.selector, obj, got, c.want, set)
			}
		}
		if set := k.StoredFields([]byte(c.object)); selector.Matches(set) != c.want {
			t.Errorf("%s %s by %s: stored matches: %v, want %v (%v)", c.kind, c.object, c.selector, !c.want, c.want, set)
		}
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	for _, k := range builtins(t) {
		if err := k.CheckFields(fields.ParseSelectorOrDie("spec.nope=1")); err == nil {
			t.Errorf("%s is selected by spec.nope", k.GVK)
		}
		if _, _, err := k.Scope("").Convertor.ConvertFieldLabel(k.GVK, "spec.nope", "1"); err == nil {
			t.Errorf("a handler selects %s by spec.nope", k.GVK)
		}
	}
}

func TestSelectableFieldsGiveLabels(t *testing.T) {
	k := builtins(t)[0]
	cm := &corev1.ConfigMap{}
	cm.Labels = map[string]string{"a": "b"}
	labels, _, err := k.SelectableFields(cm)
	if err != nil || labels["a"] != "b" {
		t.Errorf("labels %v, %v", labels, err)
	}
}
