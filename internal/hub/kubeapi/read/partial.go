package read

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// partialConvertor converts field labels with the convertor of a kind that is served to handlers
// as PartialObjectMetadata.
type partialConvertor struct {
	runtime.ObjectConvertor
	kind schema.GroupVersionKind
}

func (p partialConvertor) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return p.ObjectConvertor.ConvertFieldLabel(p.kind, label, value)
}

// ConvertToVersion returns partial metadata unchanged.
func (p partialConvertor) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
