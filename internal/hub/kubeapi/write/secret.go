package write

import (
	"context"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const immutableMessage = "field is immutable when `immutable` is set"

// secrets is the strategy of Secrets. It merges the write-only stringData into data, and enforces
// immutable.
type secrets struct{ inert }

func (s secrets) PrepareForCreate(ctx context.Context, obj runtime.Object) {
	foldStringData(obj)
	s.inert.PrepareForCreate(ctx, obj)
}

func (s secrets) PrepareForUpdate(ctx context.Context, obj, old runtime.Object) {
	foldStringData(obj)
	s.inert.PrepareForUpdate(ctx, obj, old)
}

func foldStringData(obj runtime.Object) {
	secret, ok := obj.(*corev1.Secret)
	if !ok || len(secret.StringData) == 0 {
		return
	}
	if secret.Data == nil {
		secret.Data = make(map[string][]byte, len(secret.StringData))
	}
	for k, v := range secret.StringData {
		secret.Data[k] = []byte(v)
	}
	secret.StringData = nil
}

func (s secrets) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	problems := s.inert.ValidateUpdate(ctx, obj, old)
	now, ok := obj.(*corev1.Secret)
	previous, ok2 := old.(*corev1.Secret)
	if !ok || !ok2 || previous.Immutable == nil || !*previous.Immutable {
		return problems
	}
	return append(problems, stillImmutable(now.Immutable,
		fieldChange{"data", now.Data, previous.Data})...)
}

// configMaps is the strategy of ConfigMaps: it enforces immutable.
type configMaps struct{ inert }

func (c configMaps) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	problems := c.inert.ValidateUpdate(ctx, obj, old)
	now, ok := obj.(*corev1.ConfigMap)
	previous, ok2 := old.(*corev1.ConfigMap)
	if !ok || !ok2 || previous.Immutable == nil || !*previous.Immutable {
		return problems
	}
	return append(problems, stillImmutable(now.Immutable,
		fieldChange{"data", now.Data, previous.Data}, fieldChange{"binaryData", now.BinaryData, previous.BinaryData})...)
}

type fieldChange struct {
	name          string
	now, previous any
}

// stillImmutable returns the errors of an update of an immutable object.
func stillImmutable(immutable *bool, changes ...fieldChange) field.ErrorList {
	var problems field.ErrorList
	if immutable == nil || !*immutable {
		problems = append(problems, field.Forbidden(field.NewPath("immutable"), immutableMessage))
	}
	for _, p := range changes {
		if !reflect.DeepEqual(p.now, p.previous) {
			problems = append(problems, field.Forbidden(field.NewPath(p.name), immutableMessage))
		}
	}
	return problems
}

// foldingDefaulter merges stringData into data in the result of a patch.
type foldingDefaulter struct{}

func (foldingDefaulter) Default(obj runtime.Object) { foldStringData(obj) }
