package write_test

import (
	"bytes"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	configMaps  = "/api/v1/namespaces/default/configmaps"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
)

func configMap(name string, data object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}, "data": data}
}

func deployment(replicas int) object {
	const name = "d"
	return object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"name": name},
		"spec": object{
			"replicas": replicas,
			"selector": object{"matchLabels": object{"app": name}},
			"template": object{
				"metadata": object{"labels": object{"app": name}},
				"spec":     object{"containers": []any{object{"name": "c", "image": "one"}}},
			},
		},
		"status": object{"replicas": 7},
	}
}

func TestBuiltinVerbs(t *testing.T) {
	h := newHub(t)
	created := h.must(201, h.do("POST", "a", configMaps, configMap("c", object{"k": "v"})))
	if created.field("metadata", "generation") != nil || created.field("metadata", "uid") == nil {
		t.Errorf("metadata of a ConfigMap: %s", created.raw)
	}
	h.refused(h.do("POST", "a", configMaps, configMap("c", nil)), 409, metav1.StatusReasonAlreadyExists, "c")

	rv := created.field("metadata", "resourceVersion")
	changed := configMap("c", object{"k": "w"})
	changed["metadata"].(object)["resourceVersion"] = rv
	updated := h.must(200, h.do("PUT", "a", configMaps+"/c", changed))
	if updated.field("data", "k") != "w" || updated.field("metadata", "resourceVersion") == rv {
		t.Errorf("update: %s", updated.raw)
	}
	h.refused(h.do("PUT", "a", configMaps+"/c", changed), 409, metav1.StatusReasonConflict, "modified")

	for i, patch := range []struct{ contentType, body string }{
		{"application/merge-patch+json", `{"data":{"k":"0"}}`},
		{"application/strategic-merge-patch+json", `{"data":{"k":"1"}}`},
		{"application/json-patch+json", `[{"op":"replace","path":"/data/k","value":"2"}]`},
	} {
		a := h.must(200, h.do("PATCH", "a", configMaps+"/c", patch.body, "Content-Type", patch.contentType))
		if a.field("data", "k") != fmt.Sprint(i) {
			t.Errorf("%s: %s", patch.contentType, a.raw)
		}
	}
	h.must(201, h.do("POST", "a", configMaps, configMap("d", nil)))
	h.must(200, h.do("DELETE", "a", configMaps+"/c", nil))
	h.refused(h.do("DELETE", "a", configMaps+"/c", nil), 404, metav1.StatusReasonNotFound, "c")
	h.must(200, h.do("DELETE", "a", configMaps, nil))
	if n := h.keys("o/a/core/configmaps/"); n != 0 {
		t.Errorf("%d ConfigMaps after deletecollection", n)
	}
}

func TestApply(t *testing.T) {
	h := newHub(t)
	apply := func(manager, query string, body object) answer {
		return h.do("PATCH", "a", configMaps+"/c?fieldManager="+manager+query, body, "Content-Type", "application/apply-patch+yaml")
	}
	first := h.must(201, apply("one", "", configMap("c", object{"k": "v"})))
	before := h.stored("o/a/core/configmaps/default/c")
	again := h.must(200, apply("one", "", configMap("c", object{"k": "v"})))
	if first.field("metadata", "resourceVersion") != again.field("metadata", "resourceVersion") {
		t.Error("an apply that changes nothing made a write")
	}
	if !bytes.Equal(before, h.stored("o/a/core/configmaps/default/c")) {
		t.Error("an apply that changes nothing changed the stored bytes")
	}
	h.refused(apply("two", "", configMap("c", object{"k": "w"})), 409, metav1.StatusReasonConflict, "one")
	forced := h.must(200, apply("two", "&force=true", configMap("c", object{"k": "w"})))
	if forced.field("data", "k") != "w" {
		t.Errorf("forced apply: %s", forced.raw)
	}
}

func TestGenerationAndStatus(t *testing.T) {
	h := newHub(t)
	a := h.must(201, h.do("POST", "a", deployments, deployment(2)))
	if status, _ := a.field("status").(object); len(status) != 0 || a.field("metadata", "generation") != 1.0 {
		t.Fatalf("created with status or generation: %s", a.raw)
	}
	merge := func(path, body string) answer {
		return h.must(200, h.do("PATCH", "a", deployments+path, body, "Content-Type", "application/merge-patch+json"))
	}
	if a = merge("/d", `{"metadata":{"labels":{"x":"y"}},"status":{"replicas":9}}`); a.field("metadata", "generation") != 1.0 || a.field("status", "replicas") != nil {
		t.Errorf("patch of metadata and status: %s", a.raw)
	}
	if a = merge("/d/status", `{"metadata":{"labels":{"x":"z"}},"spec":{"replicas":5},"status":{"replicas":3}}`); a.field("metadata", "generation") != 1.0 ||
		a.field("status", "replicas") != 3.0 || a.field("spec", "replicas") != 2.0 || a.field("metadata", "labels", "x") != "y" {
		t.Errorf("patch of the status: %s", a.raw)
	}
	if a = merge("/d", `{"spec":{"paused":true}}`); a.field("metadata", "generation") != 2.0 || a.field("status", "replicas") != 3.0 {
		t.Errorf("patch of the spec: %s", a.raw)
	}
	if a = h.must(200, h.do("GET", "a", deployments+"/d/status", nil)); a.field("status", "replicas") != 3.0 {
		t.Errorf("get of the status: %s", a.raw)
	}
}

// TestMetadataThroughStatus checks the rules for metadata that a write of the status contains.
func TestMetadataThroughStatus(t *testing.T) {
	h := newHub(t)
	const namespaces, merging = "/api/v1/namespaces", "application/merge-patch+json"
	h.must(201, h.do("POST", "a", deployments, deployment(2)))
	patch := func(path, body string) answer {
		return h.do("PATCH", "a", path+"/status", body, "Content-Type", merging)
	}
	a := h.must(200, patch(deployments+"/d", `{"metadata":{"annotations":{"orrery.dev/assigned-locations":"[\"berlin\"]"}},"spec":{"paused":true}}`))
	if a.field("metadata", "annotations", "orrery.dev/assigned-locations") != `["berlin"]` || a.field("metadata", "generation") != 1.0 || a.field("spec", "paused") != nil {
		t.Errorf("annotated: %s", a.raw)
	}
	h.refused(patch(deployments+"/d", `{"metadata":{"annotations":{"orrery.dev/assigned-locations":"berlin"}}}`), 422, metav1.StatusReasonInvalid, "must be a JSON list")
	h.refused(patch(deployments+"/d", `{"metadata":{"finalizers":["x"]}}`), 422, metav1.StatusReasonInvalid, "fully qualified")

	h.must(201, h.do("POST", "a", namespaces, object{"metadata": object{"name": "going"}}))
	h.must(200, h.do("DELETE", "a", namespaces+"/going", nil))
	if a := h.must(200, patch(namespaces+"/going", `{"metadata":{"finalizers":null}}`)); h.stored("o/a/core/namespaces/going") == nil {
		t.Errorf("a namespace is gone before its content: %s", a.raw)
	}
}

func TestScale(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", deployments, deployment(2)))
	a := h.must(200, h.do("GET", "a", deployments+"/d/scale", nil))
	if a.field("kind") != "Scale" || a.field("spec", "replicas") != 2.0 || a.field("status", "selector") != "app=d" {
		t.Errorf("scale: %s", a.raw)
	}
	a = h.must(200, h.do("PATCH", "a", deployments+"/d/scale", `{"spec":{"replicas":5}}`, "Content-Type", "application/merge-patch+json"))
	if a.field("spec", "replicas") != 5.0 {
		t.Errorf("patched scale: %s", a.raw)
	}
	a = h.must(200, h.do("GET", "a", deployments+"/d/status", nil))
	if a.field("spec", "replicas") != 5.0 || a.field("metadata", "generation") != 2.0 || !bytes.Contains(a.raw, []byte(`"subresource":"scale"`)) {
		t.Errorf("scaled: %s", a.raw)
	}
	h.refused(h.do("PATCH", "a", deployments+"/d/scale", `{"spec":{"replicas":-1}}`, "Content-Type", "application/merge-patch+json"), 422, metav1.StatusReasonInvalid, "spec.replicas")
	scale := object{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": object{"name": "d", "namespace": "default"}, "spec": object{"replicas": 1}}
	h.must(200, h.do("PUT", "a", deployments+"/d/scale", scale))
}

func TestDryRunAndPreconditions(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", configMaps+"?dryRun=All", configMap("c", nil)))
	if h.stored("o/a/core/configmaps/default/c") != nil {
		t.Fatal("a dry run was stored")
	}
	created := h.must(201, h.do("POST", "a", configMaps, configMap("c", object{"k": "v"})))
	before := h.stored("o/a/core/configmaps/default/c")
	h.must(200, h.do("PATCH", "a", configMaps+"/c?dryRun=All", `{"data":{"k":"w"}}`, "Content-Type", "application/merge-patch+json"))
	h.must(200, h.do("DELETE", "a", configMaps+"/c?dryRun=All", nil))
	options := func(pre object) object {
		return object{"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": pre}
	}
	h.refused(h.do("DELETE", "a", configMaps+"/c", options(object{"uid": "other"})), 409, metav1.StatusReasonConflict, "UID")
	h.refused(h.do("DELETE", "a", configMaps+"/c", options(object{"resourceVersion": "1"})), 409, metav1.StatusReasonConflict, "ResourceVersion")
	if !bytes.Equal(before, h.stored("o/a/core/configmaps/default/c")) {
		t.Fatal("a dry run or failed precondition changed the object")
	}
	h.must(200, h.do("DELETE", "a", configMaps+"/c", options(object{"uid": created.field("metadata", "uid")})))
}

func TestFinalizersKeep(t *testing.T) {
	h := newHub(t)
	c := configMap("c", nil)
	c["metadata"].(object)["finalizers"] = []string{"example.com/wait"}
	h.must(201, h.do("POST", "a", configMaps, c))
	a := h.must(200, h.do("DELETE", "a", configMaps+"/c", nil))
	if a.field("metadata", "deletionTimestamp") == nil {
		t.Errorf("delete with a finalizer: %s", a.raw)
	}
	h.must(200, h.do("PATCH", "a", configMaps+"/c", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json"))
	if h.stored("o/a/core/configmaps/default/c") != nil {
		t.Error("still there without finalizers")
	}
}

func TestPodsGoAtOnce(t *testing.T) {
	h := newHub(t)
	const pods = "/api/v1/namespaces/default/pods"
	h.must(201, h.do("POST", "a", pods, object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"generateName": "p-"}, "spec": object{"containers": []any{}}}))
	h.must(201, h.do("POST", "a", pods, object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "p"}, "spec": object{"containers": []any{}}}))
	h.must(200, h.do("DELETE", "a", pods+"/p?gracePeriodSeconds=30", nil))
	if n := h.keys("o/a/core/pods/"); n != 1 {
		t.Errorf("%d pods, want the generated one", n)
	}
}

func TestSecrets(t *testing.T) {
	h := newHub(t)
	const secrets = "/api/v1/namespaces/default/secrets"
	a := h.must(201, h.do("POST", "a", secrets, object{"apiVersion": "v1", "kind": "Secret", "metadata": object{"name": "s"}, "stringData": object{"k": "v"}}))
	if a.field("stringData") != nil || a.field("data", "k") != "dg==" {
		t.Errorf("stringData: %s", a.raw)
	}
	if bytes.Contains(a.raw, []byte("f:stringData")) || !bytes.Contains(a.raw, []byte("f:data")) {
		t.Errorf("managed fields of stringData: %s", a.raw)
	}
	merge := func(body string) answer {
		return h.do("PATCH", "a", secrets+"/s", body, "Content-Type", "application/merge-patch+json")
	}
	if a = h.must(200, merge(`{"stringData":{"k":"w"},"immutable":true}`)); a.field("data", "k") != "dw==" || a.field("type") != nil {
		t.Errorf("patched stringData: %s", a.raw)
	}
	h.refused(merge(`{"stringData":{"k":"x"}}`), 422, metav1.StatusReasonInvalid, "immutable")
	h.refused(merge(`{"immutable":false}`), 422, metav1.StatusReasonInvalid, "immutable")
	h.must(200, merge(`{"metadata":{"labels":{"x":"y"}}}`))

	h.must(201, h.do("POST", "a", configMaps, object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "i"}, "immutable": true, "data": object{"k": "v"}}))
	h.refused(h.do("PATCH", "a", configMaps+"/i", `{"data":{"k":"w"}}`, "Content-Type", "application/merge-patch+json"), 422, metav1.StatusReasonInvalid, "immutable")
}

func TestNothingIsDefaulted(t *testing.T) {
	h := newHub(t)
	h.must(201, h.do("POST", "a", "/api/v1/namespaces/default/services", object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": "s"}, "spec": object{"ports": []any{object{"port": 80}}},
	}))
	stored := h.stored("o/a/core/services/default/s")
	for _, field := range []string{"clusterIP", "sessionAffinity", "protocol", `"type"`} {
		if bytes.Contains(stored, []byte(field+`":`)) || bytes.Contains(stored, []byte(field+":")) {
			t.Errorf("%s was set: %s", field, stored)
		}
	}
}
