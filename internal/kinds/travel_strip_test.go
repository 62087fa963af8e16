package kinds

import (
	"testing"
)

// TestTravel has what the samples of whole kinds do not show.
func TestTravel(t *testing.T) {
	byName := map[string]*Kind{}
	for _, k := range builtins(t) {
		byName[k.GVK.Kind] = k
	}
	custom := &Kind{HasStatus: true, Custom: &Custom{}}
	custom.GVK.Group = "example.com"
	plain := &Kind{Custom: &Custom{}}
	below := &Kind{HasStatus: true, Custom: &Custom{}}
	below.GVK.Group = "orrery.dev"
	for _, c := range []struct {
		name   string
		kind   *Kind
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
			"status goes whether or not there is a subresource for it", plain,
			`{"spec":{"a":1},"status":{"x":1}}`,
			`{"spec":{"a":1}}`,
		},
		{
			"marks and control annotations go, cascade stays", custom,
			`{"metadata":{"name":"a","labels":{"orrery.dev/location":"x","orrery.dev/space":"y"},"annotations":{
				"orrery.dev/assigned-locations":"[]","orrery.dev/cascade":"true","orrery.dev/source-uid":"u"}}}`,
			`{"metadata":{"annotations":{"orrery.dev/cascade":"true"},"name":"a"}}`,
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
			"a namespace's finalizers are the server's", byName["Namespace"],
			`{"metadata":{"name":"a"},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}`,
			`{"metadata":{"name":"a"}}`,
		},
		{
			"an empty list that was written stays, one that was not does not come", byName["ClusterRole"],
			`{"metadata":{"name":"a"},"rules":[]}`,
			`{"metadata":{"name":"a"},"rules":[]}`,
		},
		{
			"null where a list is required was not written", byName["ClusterRole"],
			`{"metadata":{"name":"a"},"rules":null}`,
			`{"metadata":{"name":"a"}}`,
		},
		{
			"a policy that denies everything is not an empty spec", byName["NetworkPolicy"],
			`{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`,
			`{"metadata":{"name":"a"},"spec":{"podSelector":{}}}`,
		},
		{
			"what the encoder adds goes, at any depth", byName["StatefulSet"],
			`{"metadata":{"name":"a","creationTimestamp":null},"spec":{"serviceName":"","selector":null,"updateStrategy":{},
				"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"c","resources":{}}]}},
				"volumeClaimTemplates":[{"metadata":{"name":"v","creationTimestamp":null},"spec":{"resources":{}},"status":{}}]},
				"status":{"replicas":0}}`,
			`{"metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"name":"c"}]}},"volumeClaimTemplates":[{"metadata":{"name":"v"}}]}}`,
		},
		{
			"what may be anything stays as it is", byName["ControllerRevision"],
			`{"metadata":{"name":"a"},"data":{"zeros":null,"none":{}},"revision":0}`,
			`{"data":{"none":{},"zeros":null},"metadata":{"name":"a"},"revision":0}`,
		},
		{
			"only what is called status at the top is status", byName["ConfigMap"],
			`{"metadata":{"name":"a"},"data":{"status":"x"}}`,
			`{"data":{"status":"x"},"metadata":{"name":"a"}}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.kind.Travel([]byte(c.stored))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if c.kind.Custom == nil || c.kind == below {
				return
			}
			if unknown, err := (AnyCustom{}).Travel([]byte(c.stored)); err != nil || string(unknown) != c.want {
				t.Errorf("without its CRD: %s (%v)", unknown, err)
			}
		})
	}
}

func TestTravelRefusesWhatIsNoObject(t *testing.T) {
	k := builtins(t)[0]
	for _, bad := range []string{"", "{", "[]", "null", `"x"`, `{"a":1`, `{} {}`} {
		if got, err := k.Travel([]byte(bad)); err == nil {
			t.Errorf("%q travels as %s, want an error", bad, got)
		}
	}
}

func BenchmarkTravel(b *testing.B) {
	var stored []byte
	var kind *Kind
	for _, s := range samples(b) {
		if s.kind.GVK.Kind != "Pod" {
			continue
		}
		obj := decodeAs(b, s.kind, "application/yaml", s.yaml)
		addServersPart(b, obj)
		kind = s.kind
		stored = encodeStored(b, kind, obj)
	}
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		if _, err := kind.Travel(stored); err != nil {
			b.Fatal(err)
		}
	}
}
