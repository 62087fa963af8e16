package kinds

import "testing"

func TestBuiltinsAreComplete(t *testing.T) {
	kinds, err := Builtins()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kinds {
		if k.New() == nil || k.NewList() == nil || k.Scope("") == nil {
			t.Errorf("%s: incomplete", k.GVK)
		}
	}
}
