package refs

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/protocol/key"
)

// id is the identity of the object x of a kind, in the namespace n.
func id(group, resource string) key.Identity {
	return key.Identity{Resource: key.NewResource(group, resource), Namespace: "n", Name: "x"}
}

// texts are what an object refers to, as KIND/NAME.
func texts(t *testing.T, identity key.Identity, yml string) (all []string) {
	t.Helper()
	value, err := yaml.YAMLToJSON([]byte(yml))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range References(identity, value) {
		if namespaced := r.Resource != key.CRDs; namespaced != (r.Namespace == identity.Namespace && r.Namespace != "") {
			t.Errorf("%s is in namespace %q", r, r.Namespace)
		}
		all = append(all, r.Resource.Resource+"/"+r.Name)
	}
	return all
}

// TestOf has, for every kind that refers to anything, what it refers to.
func TestOf(t *testing.T) {
	pod := `{serviceAccountName: sa, volumes: [{name: v, configMap: {name: cm}}]}`
	want := []string{"configmaps/cm", "serviceaccounts/sa"}
	for _, c := range []struct {
		identity key.Identity
		yml      string
		want     []string
	}{
		{id("", "pods"), `{spec: ` + pod + `}`, want},
		{id("", "podtemplates"), `{template: {spec: ` + pod + `}}`, want},
		{id("", "replicationcontrollers"), `{spec: {template: {spec: ` + pod + `}}}`, want},
		{id("apps", "deployments"), `{spec: {template: {spec: ` + pod + `}}}`, want},
		{id("apps", "replicasets"), `{spec: {template: {spec: ` + pod + `}}}`, want},
		{id("apps", "daemonsets"), `{spec: {template: {spec: ` + pod + `}}}`, want},
		{id("batch", "jobs"), `{spec: {template: {spec: ` + pod + `}}}`, want},
		{id("batch", "cronjobs"), `{spec: {jobTemplate: {spec: {template: {spec: ` + pod + `}}}}}`, want},
		{
			id("apps", "statefulsets"), `{spec: {template: {spec: ` + pod + `}, volumeClaimTemplates: [
			  {metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}},
			  {metadata: {name: copy}, spec: {dataSource: {kind: PersistentVolumeClaim, name: golden}}},
			  {metadata: {name: snapshot}, spec: {dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: s}}}]}}`,
			[]string{"configmaps/cm", "persistentvolumeclaims/golden", "serviceaccounts/sa"},
		},
		{id("", "serviceaccounts"), `{secrets: [{name: a}, {kind: Secret}], imagePullSecrets: [{name: b}, {name: a}]}`, []string{"secrets/a", "secrets/b"}},
		{id("networking.k8s.io", "ingresses"), `{spec: {tls: [{hosts: [h], secretName: cert}, {hosts: [i]}]}}`, []string{"secrets/cert"}},
		{id("example.com", "widgets"), `{spec: {template: {spec: ` + pod + `}}}`, []string{"customresourcedefinitions/widgets.example.com"}},
		{id("snapshot.storage.k8s.io", "volumesnapshots"), `{}`, []string{"customresourcedefinitions/volumesnapshots.snapshot.storage.k8s.io"}},
		{
			id("", "pods"), `{spec: {volumes: [
			  {name: a, ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: a}}}}},
			  {name: b, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: b}}}}},
			  {name: c, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: c, namespace: other}}}}}]}}`,
			[]string{"persistentvolumeclaims/a", "persistentvolumeclaims/b"},
		},
		// What every cluster makes by itself, and what can't be read.
		{id("", "pods"), `{spec: {volumes: [{name: token, projected: {sources: [{configMap: {name: kube-root-ca.crt}}, {serviceAccountToken: {path: t}}]}}]}}`, nil},
		{id("", "pods"), `{spec: {hostNetwork: "yes", serviceAccountName: sa}}`, []string{"serviceaccounts/sa"}},
		{id("", "pods"), `{}`, nil},
		{id("apps", "deployments"), `{spec: ` + pod + `}`, nil},
		{id("", "secrets"), `{metadata: {annotations: {kubernetes.io/service-account.name: sa}}}`, nil},
		{id("", "configmaps"), `{data: {secretName: s}}`, nil},
	} {
		if got := texts(t, c.identity, c.yml); !slices.Equal(got, c.want) {
			t.Errorf("%s %s:\n got %v\nwant %v", c.identity.Resource, c.yml, got, c.want)
		}
		if len(c.want) > 0 && !Can(c.identity.Resource) {
			t.Errorf("%s can refer to something", c.identity.Resource)
		}
	}
}

// TestReferencesEnd shows that references lead from a kind to later ones only.
func TestReferencesEnd(t *testing.T) {
	all := func(k Kind) string {
		return fmt.Sprintf(`{secrets: [{name: x}], imagePullSecrets: [{name: x}], spec: {tls: [{secretName: x}], serviceAccountName: %q}}`, k)
	}
	for _, k := range All() {
		for _, to := range References(key.Identity{Resource: k.Resource(), Namespace: "n", Name: "x"}, []byte(all(k))) {
			if i := slices.IndexFunc(All(), func(k Kind) bool { return k.Resource() == to.Resource }); Kind(i) <= k {
				t.Errorf("%s refer to %s", k, to.Resource)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	set := KindsOf([]string{"secrets", "customresourcedefinitions", "nodes"})
	for _, k := range All() {
		if want := k == Secrets || k == Definitions; set.Contains(k.Resource()) != want {
			t.Errorf("%s is in the set: %v", k, !want)
		}
	}
	if set.Contains(key.NewResource("", "nodes")) || set.Contains(key.NewResource("example.com", "secrets")) {
		t.Error("other resources are in the set")
	}
}

// podFields are all fields of a Pod's spec that may be names of objects, with the kind of the
// reference; "" if it is not followed, for the reason in the comment.
var podFields = map[string]string{
	"serviceAccountName":                                    "serviceaccounts",
	"serviceAccount":                                        "serviceaccounts",
	"imagePullSecrets[].name":                               "secrets",
	"volumes[].secret.secretName":                           "secrets",
	"volumes[].configMap.name":                              "configmaps",
	"volumes[].persistentVolumeClaim.claimName":             "persistentvolumeclaims",
	"volumes[].projected.sources[].secret.name":             "secrets",
	"volumes[].projected.sources[].configMap.name":          "configmaps",
	"volumes[].azureFile.secretName":                        "secrets",
	"volumes[].cephfs.secretRef.name":                       "secrets",
	"volumes[].cinder.secretRef.name":                       "secrets",
	"volumes[].csi.nodePublishSecretRef.name":               "secrets",
	"volumes[].flexVolume.secretRef.name":                   "secrets",
	"volumes[].iscsi.secretRef.name":                        "secrets",
	"volumes[].rbd.secretRef.name":                          "secrets",
	"volumes[].scaleIO.secretRef.name":                      "secrets",
	"volumes[].storageos.secretRef.name":                    "secrets",
	"volumes[].ephemeral.volumeClaimTemplate.metadata.name": "", // made with the Pod
	"volumes[].cephfs.secretFile":                           "", // a path on the node

	// Of a claim only if that is its kind, see TestOf.
	"volumes[].ephemeral.volumeClaimTemplate.spec.dataSource.name":            "",
	"volumes[].ephemeral.volumeClaimTemplate.spec.dataSourceRef.name":         "",
	"volumes[].ephemeral.volumeClaimTemplate.metadata.ownerReferences[].name": "", // it has no owners
	// Of kinds that operators of clusters make, not those of workloads.
	"volumes[].projected.sources[].clusterTrustBundle.name": "",
	"resourceClaims[].resourceClaimName":                    "",
	"resourceClaims[].resourceClaimTemplateName":            "",
	// Names within the Pod.
	"resourceClaims[].name":                                             "",
	"resources.claims[].name":                                           "",
	"containers[].resources.claims[].name":                              "",
	"initContainers[].resources.claims[].name":                          "",
	"ephemeralContainers[].resources.claims[].name":                     "",
	"volumes[].projected.sources[].podCertificate.certificateChainPath": "",
	"volumes[].projected.sources[].podCertificate.credentialBundlePath": "",

	"initContainers[].env[].valueFrom.secretKeyRef.name":         "secrets",
	"initContainers[].env[].valueFrom.configMapKeyRef.name":      "configmaps",
	"initContainers[].envFrom[].secretRef.name":                  "secrets",
	"initContainers[].envFrom[].configMapRef.name":               "configmaps",
	"containers[].env[].valueFrom.secretKeyRef.name":             "secrets",
	"containers[].env[].valueFrom.configMapKeyRef.name":          "configmaps",
	"containers[].envFrom[].secretRef.name":                      "secrets",
	"containers[].envFrom[].configMapRef.name":                   "configmaps",
	"ephemeralContainers[].env[].valueFrom.secretKeyRef.name":    "secrets",
	"ephemeralContainers[].env[].valueFrom.configMapKeyRef.name": "configmaps",
	"ephemeralContainers[].envFrom[].secretRef.name":             "secrets",
	"ephemeralContainers[].envFrom[].configMapRef.name":          "configmaps",
}

// TestFieldsOfPods shows that no field of a Pod's spec that names an object is forgotten,
// also of a newer Kubernetes: it finds them by their types and names.
func TestFieldsOfPods(t *testing.T) {
	found := map[string]string{}
	for path := range fieldsOf(reflect.TypeFor[corev1.PodSpec]()) {
		found[path] = ""
		if all := References(id("", "pods"), podWith(t, path)); len(all) > 0 {
			found[path] = all[0].Resource.Resource
		}
	}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if want, known := podFields[path]; !known {
			t.Errorf("field %s may name an object: say in podFields of which kind, or why it does not follow", path)
		} else if found[path] != want {
			t.Errorf("field %s refers to %q, want %q", path, found[path], want)
		}
	}
	for path := range podFields {
		if _, ok := found[path]; !ok {
			t.Errorf("there is no field %s", path)
		}
	}
}

// TestFieldsOfIngresses is the same for Ingresses.
func TestFieldsOfIngresses(t *testing.T) {
	for path := range fieldsOf(reflect.TypeFor[networkingv1.IngressSpec]()) {
		if path != "tls[].secretName" && path != "rules[].http.paths[].backend.resource.name" && path != "defaultBackend.resource.name" {
			t.Errorf("field %s may name an object", path)
		}
	}
}

var (
	nameOfKind = regexp.MustCompile(`(?i)secret|configmap|claim|serviceaccount|certificate|bundle`)
	refersType = regexp.MustCompile(`Reference$|Selector$|EnvSource$|Projection$|VolumeSource$|^Secret|^ConfigMap|Claim`)
)

// fieldsOf are the paths of the strings below a type that may name an object of a kind that
// has Secret, ConfigMap, claim or ServiceAccount in its name: those called so, and those
// called name in a type that is.
func fieldsOf(t reflect.Type) map[string]bool {
	all := map[string]bool{}
	var walk func(t reflect.Type, path string, inside []reflect.Type)
	walk = func(t reflect.Type, path string, inside []reflect.Type) {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Slice {
			walk(t.Elem(), path+"[]", inside)
			return
		}
		if t.Kind() != reflect.Struct || slices.Contains(inside, t) {
			return
		}
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				walk(f.Type, path, append(inside, t))
				continue
			}
			field := strings.TrimPrefix(path+"."+name, ".")
			ft := f.Type
			for ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			if ft.Kind() != reflect.String {
				walk(f.Type, field, append(slices.Clone(inside), t))
				continue
			}
			byType := name == "name" && (refersType.MatchString(t.Name()) || nameOfKind.MatchString(t.Name()) || nameOfKind.MatchString(path))
			if byType || nameOfKind.MatchString(name) {
				all[field] = true
			}
		}
	}
	walk(t, "", nil)
	return all
}

// podWith is a Pod with a name at a path.
func podWith(t *testing.T, path string) []byte {
	t.Helper()
	var v any = "x"
	for _, name := range slices.Backward(strings.Split(path, ".")) {
		field, isList := strings.CutSuffix(name, "[]")
		if isList {
			v = []any{v}
		}
		v = map[string]any{field: v}
	}
	b, err := json.Marshal(map[string]any{"spec": v})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
