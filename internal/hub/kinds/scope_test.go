package kinds_test

import (
	"testing"
	"time"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/builtin"
)

// builtins makes the built-in kinds, which between them have all that a kind can have.
func builtins(t *testing.T) []*kinds.Kind {
	t.Helper()
	all, err := builtin.Kinds(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestScopesAreComplete(t *testing.T) {
	for _, k := range builtins(t) {
		for sub, exists := range map[string]bool{"": true, kinds.StatusSubresource: k.HasStatus, kinds.ScaleSubresource: k.Scale != nil} {
			s := k.Scope(sub)
			if (s != nil) != exists {
				t.Errorf("%s %q: scope exists: %v, want %v", k.GVK, sub, s != nil, exists)
			}
			if s == nil {
				continue
			}
			if s.Namer == nil || s.Serializer == nil || s.ParameterCodec == nil || s.Creater == nil || s.Convertor == nil ||
				s.Defaulter == nil || s.Typer == nil || s.UnsafeConvertor == nil || s.Authorizer == nil || s.FieldManager == nil ||
				s.TableConvertor == nil || s.MaxRequestBodyBytes == 0 {
				t.Errorf("%s %q: incomplete scope %+v", k.GVK, sub, s)
			}
			if s.Resource != k.GVR || s.Subresource != sub {
				t.Errorf("%s %q: scope of %v %q", k.GVK, sub, s.Resource, s.Subresource)
			}
			s.Subresource = "changed"
			if again := k.Scope(sub); again.Subresource != sub {
				t.Errorf("%s %q: the caller's copy is shared", k.GVK, sub)
			}
		}
	}
}
