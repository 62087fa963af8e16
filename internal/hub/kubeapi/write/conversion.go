package write

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	if m, err := meta.Accessor(obj); err == nil && m.GetDeletionTimestamp() != nil {
		return nil // a client has to be able to remove its finalizer
	}
	path, err := s.lostByWrite(obj)
	if path == "" && err == nil {
		path, err = s.lostByRead(ctx, old)
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

// lostByWrite returns the first field that an object would lack, or have with another value, when it
// is read again in this version; "" if there is none. The read defaults missing fields, so a lost
// default is none.
func (s unconverted) lostByWrite(obj runtime.Object) (string, error) {
	given, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return "", fmt.Errorf("unexpected type %T", obj)
	}
	text, err := runtime.Encode(s.kind.StorageCodec, obj)
	if err != nil {
		return "", err
	}
	again, err := readBy(s.kind, text)
	if err != nil {
		return "", err
	}
	return lost("", given.Object, again), nil
}

// lostByRead returns the first field of the stored object that a write of what this version has would
// remove or change; "" if there is none.
func (s unconverted) lostByRead(ctx context.Context, old runtime.Object) (string, error) {
	m, err := meta.Accessor(old)
	if err != nil {
		return "", err
	}
	space, _ := SpaceFromContext(ctx)
	o := key.Object{Space: space, Identity: key.Identity{Resource: s.kind.Resource, Namespace: m.GetNamespace(), Name: m.GetName()}}
	row, _ := s.server.config.Table.Get(o.Key())
	if row == nil || strconv.FormatInt(row.ModRev, 10) != m.GetResourceVersion() {
		return "", errTableBehind
	}
	if gjson.GetBytes(row.Value, "apiVersion").Str == s.kind.GVK.GroupVersion().String() {
		return "", nil // it was stored before the CRD had another stored version
	}
	catalog, _ := s.server.config.Kinds.Catalog(space, s.server.config.Table.Snapshot()) // an invalid CRD is reported elsewhere
	if catalog == nil {
		return "", errTableBehind
	}
	stored, ok := catalog.ForStorage(s.kind.Resource)
	if !ok {
		return "", errTableBehind
	}
	before, err := readBy(stored, row.Value)
	if err != nil {
		return "", err
	}
	served, err := runtime.Decode(s.kind.StorageCodec, row.Value)
	if err != nil {
		return "", err
	}
	text, err := runtime.Encode(s.kind.StorageCodec, served)
	if err != nil {
		return "", err
	}
	after, err := readBy(stored, text)
	if err != nil {
		return "", err
	}
	return lost("", before, after), nil
}

// errTableBehind is returned if the table does not have the object that is updated.
var errTableBehind = errors.New("the object or its CRD has just changed: try again")

// readBy returns the fields of a stored object in the version of a kind, with its defaults. A codec
// defaults only objects that were written in its version, so the object is written in it first.
func readBy(kind *kinds.Kind, text []byte) (map[string]any, error) {
	converted, err := runtime.Decode(kind.StorageCodec, text)
	if err != nil {
		return nil, err
	}
	if text, err = runtime.Encode(unstructured.UnstructuredJSONScheme, converted); err != nil {
		return nil, err
	}
	o, err := runtime.Decode(kind.StorageCodec, text)
	if err != nil {
		return nil, err
	}
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("unexpected type %T", o)
	}
	return u.Object, nil
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

// lost returns the first path, in alphabetical order, at which an object has a value that another lacks
// or has otherwise; "" if there is none. Nulls and empty maps and lists count as absent. The depth of
// objects is limited when they are read.
func lost(path string, from, to any) string {
	switch from := from.(type) {
	case nil:
	case map[string]any:
		to, _ := to.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(from)) {
			below := name
			if path != "" {
				below = path + "." + name
			} else if slices.Contains([]string{"apiVersion", "kind", "metadata"}, name) {
				continue
			}
			if found := lost(below, from[name], to[name]); found != "" {
				return found
			}
		}
	case []any:
		to, _ := to.([]any)
		if len(to) != len(from) {
			return path
		}
		for i := range from {
			if found := lost(fmt.Sprintf("%s[%d]", path, i), from[i], to[i]); found != "" {
				return found
			}
		}
	default:
		if !equality.Semantic.DeepEqual(from, to) {
			return path
		}
	}
	return ""
}
