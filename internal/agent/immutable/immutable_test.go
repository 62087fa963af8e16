package immutable

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/internal/protocol/key"
)

func invalid(causes ...metav1.StatusCause) *metav1.Status {
	return &metav1.Status{
		Reason: metav1.StatusReasonInvalid, Code: 422, Message: `X "x" is invalid: spec.x: field is immutable`,
		Details: &metav1.StatusDetails{Causes: causes},
	}
}

func cause(field, message string) metav1.StatusCause {
	return metav1.StatusCause{Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message}
}

func TestRefused(t *testing.T) {
	for _, message := range []string{
		`Invalid value: {"app":"x"}: field is immutable`,
		"Forbidden: field is immutable when `immutable` is set",
		"Forbidden: updates to statefulset spec for fields other than 'replicas', 'template' are forbidden",
		"Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
		"Forbidden: updates to parameters are forbidden.",
		"Invalid value: [\"10.0.0.1\"]: may not change once set",
		"Invalid value: 7: may not be changed in an update.",
		"Invalid value: cannot change roleRef",
		"Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
		"Invalid value: field cannot be modified once set",
		"Invalid value: Value is immutable",
		"Invalid value: failed rule: self == oldSelf",
	} {
		if !Refused(invalid(cause("spec.y", "Required value"), cause("spec.x", message))) {
			t.Errorf("not recognised: %s", message)
		}
	}
	byWebhook := invalid(cause("spec.selector", "field is immutable"))
	byWebhook.Message = `admission webhook "freeze.example.org" denied the request: ` + byWebhook.Message
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("is immutable")).ErrStatus
	for name, s := range map[string]*metav1.Status{
		"a value":   invalid(cause("spec.x", "Invalid value: -1: must be greater than or equal to 0"), cause("spec.y", "Required value")),
		"no cause":  invalid(),
		"a policy":  invalid(cause("", "updates to Deployments are forbidden during the freeze")),
		"a webhook": byWebhook,
		"forbidden": &forbidden,
		"nothing":   nil,
	} {
		if Refused(s) {
			t.Errorf("%s is taken for a field that can't change", name)
		}
	}
}

// definition is of a kind with fields that its rules keep as they are, or restrict otherwise.
const definition = `{"spec":{"versions":[{"name":"v0"},{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{
"x-kubernetes-validations":[{"rule":"self.class  ==\n oldSelf.class"},{"rule":"self.zone == oldSelf.zone","fieldPath":".zone"},{"rule":"oldSelf.a == self.b","fieldPath":".a"}],
"properties":{
 "size":{"x-kubernetes-validations":[{"rule":"self >= oldSelf"}]},
 "name":{"x-kubernetes-validations":[{"rule":"size(self) < 9"},{"rule":"oldSelf == self","message":"Value is immutable"}]},
 "list":{"items":{"properties":{"id":{"x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}},
 "map":{"additionalProperties":{"x-kubernetes-validations":[{"rule":"self == oldSelf"}]}}}}}}}}]}}`

func TestKnown(t *testing.T) {
	const message = "Invalid value: field is immutable"
	widgets := key.NewResource("example.org", "widgets")
	for _, test := range []struct {
		resource key.Resource
		path     string
		want     string // paths that stay; empty: it is not known to be immutable
	}{
		{key.NewResource("apps", "deployments"), "spec.selector", "spec.selector spec.template.metadata.labels"},
		{key.NewResource("apps", "deployments"), "spec.selectors", ""},
		{key.NewResource("apps", "deployments"), "spec.template.spec.containers[0].image", ""},
		{key.NewResource("apps", "statefulsets"), "spec", "spec"},
		{key.NewResource("", "services"), "spec.clusterIPs[0]", "spec.clusterIPs spec.clusterIP spec.ipFamilies spec.ipFamilyPolicy"},
		{key.NewResource("", "persistentvolumes"), "spec.persistentvolumesource", "spec"},
		{key.NewResource("", "configmaps"), "data", "data binaryData immutable"},
		{key.NewResource("", "configmaps"), "metadata.labels", ""},
		{key.NewResource("rbac.authorization.k8s.io", "rolebindings"), "roleRef", "roleRef"},
		{widgets, "spec.name", "spec.name"},
		{widgets, "spec", "spec.class"},
		{widgets, "spec.zone", "spec.zone"},
		{widgets, "spec.a", ""},
		{widgets, "spec.size", ""},
		{widgets, "spec.none", ""},
		{widgets, "spec.list[3].id", "spec.list"},
		{widgets, "spec.map[a.b]", "spec.map"},
		{widgets, strings.Repeat("[", 10000), ""},
		{widgets, "[", ""}, {widgets, ".", ""}, {widgets, "spec..", ""}, {widgets, "spec[", ""},
	} {
		fields, other := Known(invalid(cause(test.path, message)), test.resource, "v1", definition)
		var paths []string
		for _, f := range fields {
			paths = append(paths, f.Paths...)
		}
		if got := strings.Join(paths, " "); got != test.want || (other == "") != (test.want != "") {
			t.Errorf("%s of %s: %q stay, other %q", test.path, test.resource.Resource, got, other)
		}
	}
	// Each cause has to be about such a field.
	for _, s := range []*metav1.Status{
		invalid(cause("spec.name", message), cause("spec.name", "Invalid value: too long")), invalid(), nil,
		invalid(cause("spec.name", message), cause("spec.size", message)),
	} {
		if fields, other := Known(s, widgets, "v1", definition); other == "" || fields != nil {
			t.Errorf("%+v: %v", s, fields)
		}
	}
	for _, version := range []string{"v0", "v2"} {
		if fields, _ := Known(invalid(cause("spec.name", message)), widgets, version, definition); fields != nil {
			t.Errorf("in %s: %v", version, fields)
		}
	}
}

func TestOnlyAllocated(t *testing.T) {
	port := cause("spec.ports[0].nodePort", "Invalid value: 30080: provided port is already allocated")
	for _, c := range []struct {
		status *metav1.Status
		want   bool
	}{
		{invalid(port), true}, {invalid(port, cause("spec.clusterIPs", "Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: provided IP is already allocated")), true},
		{invalid(port, cause("spec.ports[0].port", "Invalid value: 0")), false}, {invalid(), false}, {nil, false},
	} {
		if got := OnlyAllocated(c.status); got != c.want {
			t.Errorf("%+v: %v", c.status, got)
		}
	}
}

func TestRestored(t *testing.T) {
	body := `{"metadata":{"name":"a"},"spec":{"replicas":3,"serviceName":"two","template":{"metadata":{"labels":{"app":"two"}},"spec":{"x":2}}},"extra":{"a":1}}`
	live := `{"metadata":{"name":"a"},"spec":{"replicas":1,"selector":"one","serviceName":"one","template":{"metadata":{"labels":{"app":"one"}},"spec":{"x":1}}}}`
	field, _ := builtin(key.NewResource("apps", "statefulsets"), "spec.serviceName")
	got, err := Restored([]byte(body), live, []Field{field, {Paths: []string{"extra", "none"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"name":"a"},"spec":{"replicas":3,"selector":"one","serviceName":"one","template":{"metadata":{"labels":{"app":"one"}},"spec":{"x":2}}}}`
	if !reflect.DeepEqual(string(got), want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
