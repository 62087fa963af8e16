package write

import (
	"slices"
	"testing"

	"orrery.dev/orrery/apis/v1alpha1"
)

// TestNamespaceWildcardWarns checks that a test with the namespace "*", which is no name of a Namespace, has a
// warning with the next step.
func TestNamespaceWildcardWarns(t *testing.T) {
	t.Parallel()
	want := []string{`namespaces "*" matches nothing: it is not a wildcard; omit namespaces to match all`}
	names := &kindNames{}
	if got := names.check(&v1alpha1.ObjectTest{Namespaces: []string{"a", "*"}}); !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
	if got := names.check(&v1alpha1.ObjectTest{Namespaces: []string{"a"}, Names: []string{"*"}, Resources: []string{"*"}}); len(got) != 0 {
		t.Errorf("warnings %q, want none", got)
	}
}
