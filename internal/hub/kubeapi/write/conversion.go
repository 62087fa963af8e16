package write

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// unconverted is the strategy of a version that is not stored. If the CRD has a conversion webhook,
// which a hub never calls, the stored version may lack fields of this version, or the reverse. A write
// that would lose such a field is refused.
type unconverted struct {
	rest.RESTCreateUpdateStrategy
	server *Server
	kind   *kinds.Kind
}

func (s unconverted) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	errs := s.RESTCreateUpdateStrategy.Validate(ctx, obj)
	if len(errs) > 0 || !s.hasWebhook(ctx) {
		return errs
	}
	return s.refuse(s.lostByWrite(obj))
}

func (s unconverted) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	errs := s.RESTCreateUpdateStrategy.ValidateUpdate(ctx, obj, old)
	if len(errs) > 0 || !s.hasWebhook(ctx) {
		return errs
	}
	path, err := s.lostByWrite(obj)
	if path == "" && err == nil {
		path, err = s.lostByRead(ctx, obj)
	}
	return s.refuse(path, err)
}

// hasWebhook reports whether the CRD of the kind has a conversion webhook.
func (s unconverted) hasWebhook(ctx context.Context) bool {
	space, ok := SpaceFromContext(ctx)
	if !ok {
		return false
	}
	crd := key.Object{Space: space, Identity: key.Identity{Resource: key.CRDs, Name: s.kind.Resource.Resource + "." + s.kind.GVK.Group}}
	if definer := s.server.definer(space, s.kind); definer.Resource == key.APIBindings {
		binding, _ := s.server.config.Table.Get(key.Object{Space: space, Identity: definer}.Key())
		if binding == nil {
			return false
		}
		crd.Space = key.Space(gjson.GetBytes(binding.Value, "spec.export.space").Str)
	}
	row, _ := s.server.config.Table.Get(crd.Key())
	return row != nil && gjson.GetBytes(row.Value, "spec.conversion.strategy").Str == string(apiextensionsv1.WebhookConverter)
}

// lostByWrite returns the first field that the stored version of an object lacks; "" if it has all.
func (s unconverted) lostByWrite(obj runtime.Object) (string, error) {
	given, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("unexpected type %T", obj)
	}
	text, err := runtime.Encode(s.kind.StorageCodec, obj)
	if err != nil {
		return "", err
	}
	var stored map[string]any
	if err := json.Unmarshal(text, &stored); err != nil {
		return "", err
	}
	return lost("", given.Object, stored), nil
}

// lostByRead returns the first field of the stored object that this version lacks; "" if there is none.
// A client that reads the object in this version and writes it back removes the field.
func (s unconverted) lostByRead(ctx context.Context, obj runtime.Object) (string, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return "", err
	}
	space, _ := SpaceFromContext(ctx)
	o := key.Object{Space: space, Identity: key.Identity{Resource: s.kind.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}}
	row, _ := s.server.config.Table.Get(o.Key())
	if row == nil || gjson.GetBytes(row.Value, "apiVersion").Str == s.kind.GVK.GroupVersion().String() {
		return "", nil
	}
	var stored map[string]any
	if err := json.Unmarshal(row.Value, &stored); err != nil {
		return "", err
	}
	read, err := runtime.Decode(s.kind.StorageCodec, row.Value)
	if err != nil {
		return "", err
	}
	served, ok := read.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("unexpected type %T", read)
	}
	return lost("", stored, served.Object), nil
}

// refuse returns the error for a write that would lose a field.
func (s unconverted) refuse(path string, err error) field.ErrorList {
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(nil, fmt.Errorf("compare version %s with the stored version %s: %w", s.kind.GVK.Version, s.kind.Storage.Version, err))}
	case path == "":
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(path), fmt.Sprintf(
		"the object is stored in version %s, and a hub does not call the conversion webhook of its CRD, so a write in version %s would lose this field: write it in version %s",
		s.kind.Storage.Version, s.kind.GVK.Version, s.kind.Storage.Version))}
}

// lost returns the first path, in alphabetical order, that an object has and another lacks; "" if there
// is none. It does not compare values. The depth of objects is limited when they are read.
func lost(path string, from, to any) string {
	switch from := from.(type) {
	case map[string]any:
		to, ok := to.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if path == "" && (name == "metadata" || name == "apiVersion" || name == "kind") {
				continue
			}
			below := name
			if path != "" {
				below = path + "." + name
			}
			value, exists := to[name]
			if !ok || !exists {
				return below
			}
			if found := lost(below, from[name], value); found != "" {
				return found
			}
		}
	case []any:
		to, ok := to.([]any)
		if !ok || len(to) < len(from) {
			return path
		}
		for i := range from {
			if found := lost(fmt.Sprintf("%s[%d]", path, i), from[i], to[i]); found != "" {
				return found
			}
		}
	}
	return ""
}
