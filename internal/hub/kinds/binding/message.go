package binding

import (
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
)

// Message returns the message for users that explains the reason why a resource of the export can't be
// bound or written now.
func (b *Binding) Message(reason string, r v1alpha1.ExportedResource) string {
	space, export, name := b.Spec.Export.Space, b.Spec.Export.Name, Name(r)
	switch reason {
	case v1alpha1.ReasonNoSuchSpace:
		return fmt.Sprintf("space %q does not exist", space)
	case v1alpha1.ReasonAnotherSpace:
		return fmt.Sprintf("space %q was deleted and created again after the binding", space)
	case v1alpha1.ReasonNoSuchExport:
		return fmt.Sprintf("there is no APIExport %q in space %q", export, space)
	case v1alpha1.ReasonNotExported:
		return fmt.Sprintf("APIExport %q of space %q no longer has %s", export, space, name)
	case v1alpha1.ReasonNoDefinition:
		return fmt.Sprintf("no established CustomResourceDefinition defines %s in space %q", name, space)
	case v1alpha1.ReasonIncompatible:
		return fmt.Sprintf("space %q now defines %s with another kind or scope than the bound one", space, name)
	}
	return fmt.Sprintf("%s of space %q: %s", name, space, reason)
}

// Name returns RESOURCE.GROUP, which is also the name of the CRD that defines the resource.
func Name(r v1alpha1.ExportedResource) string { return r.Resource + "." + r.Group }
