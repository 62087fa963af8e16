package custom

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestStoredCRDs: a stored CRD has the definition of the decoded one, and is not decoded again while
// that is known.
func TestStoredCRDs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		crd := readCRD(t, strings.TrimSuffix(filepath.Base(f), ".yaml"))
		want, err := json.Marshal(canonical(crd))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := pack(canonical(crd), crd); err != nil || !bytes.Equal(got.data, want) {
			t.Errorf("%s: packed as %s, want %s: %v", f, got.data, want, err)
		}
		c, err := NewCompiler(DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.Compile(crd)
		if err != nil {
			t.Fatal(err)
		}
		crd.UID, crd.Labels = "u", map[string]string{"a": "b"}
		crd.Status.AcceptedNames = d.names
		crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		if got := storedDefinition(t, c, crd, false); got != d {
			t.Errorf("%s: not the same as it is stored", f)
		}
		indented, err := json.MarshalIndent(crd, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		for _, known := range []bool{false, true} {
			s, err := ReadStored(indented)
			if err != nil {
				t.Fatal(err)
			}
			if known {
				s.value = nil // so it can not be decoded
			}
			if got, err := c.CompileStored(s); got != d {
				t.Errorf("%s: another text is another definition: %v", f, err)
			}
		}
		crd.Status.AcceptedNames.ShortNames = []string{"other"}
		renamed := storedDefinition(t, c, crd, true)
		if compiled, err := c.Compile(crd); renamed == d || compiled != renamed {
			t.Errorf("%s: renamed: %v", f, err)
		}
	}
	for _, wrong := range []string{``, `[]`, `{"spec":[]}`, `{"spec":{"names":[]}}`, `{"status":{"conditions":{}}}`} {
		if s, err := ReadStored([]byte(wrong)); err == nil {
			t.Errorf("%s: read as %+v", wrong, s)
		}
	}
}

// storedDefinition compiles a CRD as it is stored, which is decoded only if it may be.
func storedDefinition(t *testing.T, c *Compiler, crd *apiextensionsv1.CustomResourceDefinition, mayDecode bool) *Definition {
	t.Helper()
	value, err := json.Marshal(crd)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ReadStored(value)
	if err != nil {
		t.Fatal(err)
	}
	if !mayDecode {
		s.value = nil
	}
	d, err := c.CompileStored(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
