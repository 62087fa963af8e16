// Package textual changes stored objects field by field, in their text, where a codec would encode the
// whole object. Fields that the codec does not know survive.
//
// It must never decide what a write changes.
package textual

import (
	"bytes"
	"context"
	"fmt"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/lib/jsonsplice"
)

type kindKey struct{}

// With returns a context whose updates of objects of a kind are textual: they change only the
// fields in which an object differs. Writes that no client requests, deletions, and writes of
// a status are textual.
func With(ctx context.Context, kind *kinds.Kind) context.Context {
	return context.WithValue(ctx, kindKey{}, kind)
}

// Is reports whether the updates of a context are textual.
func Is(ctx context.Context) bool {
	_, ok := ctx.Value(kindKey{}).(*kinds.Kind)
	return ok
}

// Splice returns the text to store in place of a stored object, for a value that the kind's codec has
// made of it in a textual context. same reports that it is stored already: callers can't see that
// by the value, which lacks unknown fields.
func Splice(ctx context.Context, stored, value []byte) (text []byte, same bool, err error) {
	kind, ok := ctx.Value(kindKey{}).(*kinds.Kind)
	if !ok {
		return value, false, nil
	}
	const version = "apiVersion"
	if gjson.GetBytes(stored, version).Str != gjson.GetBytes(value, version).Str {
		return value, false, nil // it is stored in another version from now on, of which the stored text has no fields
	}
	decoded, err := runtime.Decode(kind.StorageCodec, stored)
	if err != nil {
		return nil, false, fmt.Errorf("decode the stored object: %w", err)
	}
	known, err := runtime.Encode(kind.StorageCodec, decoded)
	if err != nil {
		return nil, false, fmt.Errorf("encode the stored object: %w", err)
	}
	changed, err := jsonsplice.Differing(known, value, "metadata")
	if err != nil {
		return nil, false, fmt.Errorf("compare with the stored object: %w", err)
	}
	text, err = jsonsplice.Copy(stored, value, changed...)
	if err != nil {
		return nil, false, fmt.Errorf("change the stored object: %w", err)
	}
	return text, bytes.Equal(text, stored), nil
}
