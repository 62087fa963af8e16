package write

import (
	"context"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
)

// leaving has the client of a request leave while a CRD is validated.
type leaving struct {
	rest.RESTCreateUpdateStrategy
	leave func()
	calls int
}

func (l *leaving) Validate(context.Context, runtime.Object) field.ErrorList {
	l.calls++
	l.leave()
	return nil
}

func (l *leaving) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	l.calls++
	l.leave()
	return nil
}

// TestValidationEndsWithItsRequest checks that no validation of a CRD starts after its request has
// ended, and that the CRD is not compiled.
func TestValidationEndsWithItsRequest(t *testing.T) {
	old := &apiextensionsv1.CustomResourceDefinition{}
	crd := old.DeepCopy()
	crd.Generation = 1 // so that all of it is validated
	rules := &leaving{}
	d := definitions{rules: rules} // without a server, which would compile it
	for _, validate := range []func(context.Context) field.ErrorList{
		func(ctx context.Context) field.ErrorList { return d.Validate(ctx, crd) },
		func(ctx context.Context) field.ErrorList { return d.ValidateUpdate(ctx, crd, old) },
	} {
		ctx, leave := context.WithCancel(t.Context())
		rules.calls, rules.leave = 0, leave
		if problems := validate(ctx); len(problems) != 1 || problems[0].Type != field.ErrorTypeInternal || rules.calls != 1 {
			t.Errorf("a client that leaves: %v, called %d times", problems, rules.calls)
		}
		if problems := validate(ctx); len(problems) != 1 || rules.calls != 1 {
			t.Errorf("a client that has left: %v, called %d times", problems, rules.calls)
		}
	}
}
