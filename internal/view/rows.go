package view

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// ConvertToTable makes table rows of objects one after the other, so that a long
// list needs one decoded object at a time, unless the client asks for all.
func (r *reader) ConvertToTable(ctx context.Context, obj runtime.Object, opts runtime.Object) (*metav1.Table, error) {
	options, _ := opts.(*metav1.TableOptions)
	if options == nil {
		options = &metav1.TableOptions{}
	}
	switch t := obj.(type) {
	case *list:
		return r.rows(ctx, t.Items, t.ListMeta, options)
	case *object:
		return r.rows(ctx, []*object{t}, metav1.ListMeta{ResourceVersion: t.GetObjectMeta().GetResourceVersion()}, options)
	case opaque:
		return r.rows(ctx, []*object{t.of}, metav1.ListMeta{ResourceVersion: t.GetObjectMeta().GetResourceVersion()}, options)
	}
	// A bookmark: it has no cells of its own, but clients read its metadata.
	converted, err := r.columns(ctx, r.New(), options)
	if err != nil {
		return nil, err
	}
	for i := range converted.Rows {
		converted.Rows[i].Object.Object = obj
	}
	if m, err := meta.CommonAccessor(obj); err == nil {
		converted.ResourceVersion = m.GetResourceVersion()
	}
	return converted, nil
}

func (r *reader) rows(ctx context.Context, items []*object, m metav1.ListMeta, options *metav1.TableOptions) (*metav1.Table, error) {
	whole := options.IncludeObject == metav1.IncludeObject
	if limit := r.server.config.DecodedListBytes; whole && totalSize(items) > limit {
		return nil, tooLarge(totalSize(items), limit)
	}
	empty, err := r.columns(ctx, r.NewList(), options)
	if err != nil {
		return nil, err
	}
	withoutHeaders := *options
	withoutHeaders.NoHeaders = true
	result := &metav1.Table{ListMeta: m, ColumnDefinitions: empty.ColumnDefinitions, Rows: []metav1.TableRow{}}
	for _, o := range items {
		decoded, err := o.decode()
		if err != nil {
			return nil, err
		}
		one, err := r.columns(ctx, decoded, &withoutHeaders)
		if err != nil {
			return nil, err
		}
		for _, row := range one.Rows {
			if row.Object.Object = decoded; !whole {
				accessor, err := meta.Accessor(decoded)
				if err != nil {
					return nil, fmt.Errorf("make the row of %q: %w", o.row.Key, err)
				}
				row.Object.Object = meta.AsPartialObjectMetadata(accessor)
			}
			result.Rows = append(result.Rows, row)
		}
	}
	return result, nil
}

func (r *reader) columns(ctx context.Context, obj runtime.Object, options *metav1.TableOptions) (*metav1.Table, error) {
	if r.look.metadataOnly {
		return rest.NewDefaultTableConvertor(r.kind.GVR.GroupResource()).ConvertToTable(ctx, obj, options)
	}
	return r.kind.Columns.ConvertToTable(ctx, obj, options)
}

func totalSize(items []*object) (n int) {
	for _, o := range items {
		n += len(o.row.Value)
	}
	return n
}

func tooLarge(size, limit int) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
		"the list has %d bytes, more than the %d that are served in this format at once: ask for JSON, or for pages with limit", size, limit))
}
