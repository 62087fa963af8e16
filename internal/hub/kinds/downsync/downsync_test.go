package downsync

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery.dev/orrery/internal/protocol/key"
)

// TestTravel has what the samples of whole kinds do not show.
func TestTravel(t *testing.T) {
	types := Types{}
	namespace := types.Filter(reflect.TypeFor[corev1.Namespace](), key.Namespaces, true)
	builtin := func(t reflect.Type, hasStatus bool) *Filter { return types.Filter(t, key.Resource{}, hasStatus) }
	role := builtin(reflect.TypeFor[rbacv1.ClusterRole](), false)
	custom, below := Custom("example.com"), Custom("orrery.dev")
	for _, c := range []struct {
		name   string
		filter *Filter
		stored string
		want   string
	}{
		{
			"numbers and text stay as they are written", custom,
			`{"spec":{"n":9007199254740993,"f":1.50,"e":1e3,"s":"<a> & é"},"kind":"X"}`,
			`{"kind":"X","spec":{"e":1e3,"f":1.50,"n":9007199254740993,"s":"<a> & é"}}`,
		},
		{
			"a custom resource keeps its empty and null values", custom,
			`{"spec":{"a":{},"b":null,"c":[],"resources":{}},"status":{"x":1}}`,
			`{"spec":{"a":{},"b":null,"c":[],"resources":{}}}`,
		},
		{
			"status goes whether or not there is a subresource for it", custom,
			`{"spec":{"a":1},"status":{"x":1}}`,
			`{"spec":{"a":1}}`,
		},
		{
			"marks and control annotations go, and what allows a deletion at a cluster", custom,
			`{"metadata":{"name":"a","labels":{"orrery.dev/location":"x","orrery.dev/space":"y"},"annotations":{
				"orrery.dev/assigned-locations":"[]","orrery.dev/cascade":"true","orrery.dev/recreate":"true","orrery.dev/implied":"x","orrery.dev/source-uid":"u","note":"stays"}}}`,
			`{"metadata":{"annotations":{"note":"stays"},"name":"a"}}`,
		},
		{
			"a lower hub's object loses the label that says so", below,
			`{"metadata":{"labels":{"orrery.dev/for":"below","a":"b"}}}`,
			`{"metadata":{"labels":{"a":"b"}}}`,
		},
		{
			"the same label of another kind is the user's", custom,
			`{"metadata":{"labels":{"orrery.dev/for":"below"}}}`,
			`{"metadata":{"labels":{"orrery.dev/for":"below"}}}`,
		},
		{
			"a namespace's finalizers are the server's", namespace,
			`{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`,
			`{"metadata":{"name":"a"}}`,
		},
		{
			"an empty list that was written stays, one that was not does not come", role,
			`{"metadata":{"name":"a"},"rules":[]}`,
			`{"metadata":{"name":"a"},"rules":[]}`,
		},
		{
			"null where a list is required was not written", role,
			`{"metadata":{"name":"a"},"rules":null}`,
			`{"metadata":{"name":"a"}}`,
		},
		{
			"a policy that denies everything is not an empty spec", builtin(reflect.TypeFor[networkingv1.NetworkPolicy](), false),
			`{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`,
			`{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`,
		},
		{
			"what the encoder adds goes, at any depth", builtin(reflect.TypeFor[appsv1.StatefulSet](), true),
			`{"metadata":{"name":"a","creationTimestamp":null},"spec":{"serviceName":"","selector":null,"updateStrategy":{},
				"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"c","resources":{}}]}},
				"volumeClaimTemplates":[{"metadata":{"name":"v","creationTimestamp":null},"spec":{"resources":{}},"status":{}}]},
				"status":{"replicas":0}}`,
			`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c"}]}},"volumeClaimTemplates":[{"metadata":{"name":"v"}}]}}`,
		},
		{
			"what may be anything stays as it is", builtin(reflect.TypeFor[appsv1.ControllerRevision](), false),
			`{"metadata":{"name":"a"},"data":{"zeros":null,"none":{}},"revision":0}`,
			`{"data":{"none":{},"zeros":null},"metadata":{"name":"a"},"revision":0}`,
		},
		{
			"only what is called status at the top is status", builtin(reflect.TypeFor[corev1.ConfigMap](), false),
			`{"metadata":{"name":"a"},"data":{"status":"x"}}`,
			`{"data":{"status":"x"},"metadata":{"name":"a"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.filter.Travel([]byte(c.stored))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestTravelRefusesWhatIsNoObject(t *testing.T) {
	for _, bad := range []string{"", "{", "[]", "null", `"x"`, `{"a":1`, `{} {}`} {
		if got, err := Custom("").Travel([]byte(bad)); err == nil {
			t.Errorf("%q travels as %s, want an error", bad, got)
		}
	}
}
