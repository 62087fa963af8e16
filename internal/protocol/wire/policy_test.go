package wire

import (
	"reflect"
	"testing"
)

// The leaf of an object with the default policy, or with a policy of earlier versions, must not
// change. Otherwise two sides that are one version apart would find that all content differs.
func TestPolicyKeepsLeaves(t *testing.T) {
	digest := SumOf([]byte("object"))
	for policy, want := range map[Policy]string{
		{}:                   "8de558c0e0039b0648e228e0581dc6c490d69ba77af08468d920db1a4a7ca4a7",
		{ReturnStatus: true}: "b1de3a44244cbd64be6633f61b4b58390366a2d0ad6309e52c86f9f7e0a86abb",
	} {
		if got := LeafSum("key", "uid", digest, policy).String(); got != want {
			t.Errorf("%+v: %s, want %s", policy, got, want)
		}
	}
}

// Each policy has a different leaf.
func TestPolicyIsInLeaf(t *testing.T) {
	seen := map[Sum]Policy{}
	fields := reflect.TypeFor[Policy]().NumField()
	for bits := range 1 << fields {
		var p Policy
		v := reflect.ValueOf(&p).Elem()
		for i := range fields {
			switch f, set := v.Field(i), bits&(1<<i) != 0; {
			case f.Kind() == reflect.Bool:
				f.SetBool(set)
			case set:
				f.SetString("$.spec.replicas")
			}
		}
		s := LeafSum("key", "uid", Sum{}, p)
		if other, ok := seen[s]; ok {
			t.Errorf("%+v and %+v have the same leaf", p, other)
		}
		seen[s] = p
	}
}
