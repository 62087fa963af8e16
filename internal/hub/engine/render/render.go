// Package render renders objects of spaces for locations.
//
// The result is a function of the object and of its rendering class. It must never depend on the
// user of a request or on other data of a location, so that locations of one class share one
// result.
package render

import (
	"context"
	"errors"
	"fmt"

	"github.com/tidwall/sjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/rules"
	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/downsync"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// keptBytes bounds the cache of results, in bytes.
const keptBytes = 8 << 20

// Renderer renders objects. It is safe for concurrent use. All users share one, and thereby its
// cache.
type Renderer struct {
	// Follow applies the inputs of a class to an object without the fields that stay in the space.
	// It must be a pure function and return canonical JSON. It must be set before the Renderer is
	// used; nil if no class has inputs.
	Follow func(object []byte, inputs []placement.Input) ([]byte, error)
	// Fit returns an error if a rendered object is invalid by the definition of a class; isCRD
	// reports whether the object is a CRD itself. It must be a pure function. It must be set before
	// the Renderer is used; nil if no class has a definition.
	Fit func(object []byte, isCRD bool, definition *placement.Definition) error
	// Tell returns the effect of each rule that Follow applies; nil if Follow is nil.
	Tell func(ctx context.Context, object []byte, inputs []placement.Input) ([]rules.Effect, error)

	builtin *kinds.Catalog
	kept    results
	digests digests
}

// New returns a Renderer. builtin contains the kinds that need no CRD.
func New(builtin *kinds.Catalog) *Renderer {
	return &Renderer{builtin: builtin, kept: newResults(keptBytes), digests: newDigests()}
}

// Render renders an entry for a class, whether or not it is assigned to a location of the class.
// The caller must not change the result.
func (r *Renderer) Render(e *table.Entry, class *placement.Class) (Rendered, error) {
	return r.kept.get(result{e, class}, func() (Rendered, error) {
		object, err := r.render(e, class)
		if err != nil {
			return Rendered{}, fmt.Errorf("render %q: %w", e.Key, err)
		}
		digest, ok := remembered(e, class)
		if !ok {
			digest = wire.SumOf(object)
			if previous := e.Rendered.Swap(&table.Rendered{Digest: digest, Inputs: class}); previous != nil {
				r.keep(e, previous)
			}
		}
		return Rendered{object, digest}, nil
	})
}

// Digest returns the digest of the result of Render. An entry holds the digest of the class for
// which it was rendered last, so with one class a digest is computed once. Digests of other classes
// are cached, and shared by all entries with the same content.
func (r *Renderer) Digest(e *table.Entry, class *placement.Class) (wire.Sum, error) {
	if digest, ok := remembered(e, class); ok {
		return digest, nil
	}
	if digest, ok := r.known(e, class); ok {
		return digest, nil
	}
	made, err := r.Render(e, class)
	return made.Digest, err
}

// Try is Digest for a class that may have no location. The result is not cached and replaces no
// cached one.
func (r *Renderer) Try(e *table.Entry, class *placement.Class) (wire.Sum, error) {
	if digest, ok := remembered(e, class); ok {
		return digest, nil
	}
	object, err := r.render(e, class)
	if err != nil {
		return wire.Sum{}, fmt.Errorf("render %q: %w", e.Key, err)
	}
	return wire.SumOf(object), nil
}

// Once is Render for an answer to a request: the result is not cached and replaces no cached one.
func (r *Renderer) Once(e *table.Entry, class *placement.Class) (Rendered, error) {
	object, err := r.render(e, class)
	if err != nil {
		return Rendered{}, fmt.Errorf("render %q: %w", e.Key, err)
	}
	return Rendered{object, wire.SumOf(object)}, nil
}

func remembered(e *table.Entry, class *placement.Class) (digest wire.Sum, ok bool) {
	known := e.Rendered.Load()
	if known == nil || known.Inputs != any(class) {
		return wire.Sum{}, false
	}
	return known.Digest, true
}

// Effects returns the effect of each rule of a class on an entry's object, in order, up to one that
// fails. It ends with the context.
func (r *Renderer) Effects(ctx context.Context, e *table.Entry, class *placement.Class) ([]rules.Effect, error) {
	if class == nil || len(class.Inputs) == 0 || r.Tell == nil {
		return nil, nil
	}
	object, err := r.travel(e)
	if err != nil {
		return nil, fmt.Errorf("explain %q: %w", e.Key, err)
	}
	return r.Tell(ctx, object, class.Inputs)
}

func (r *Renderer) render(e *table.Entry, class *placement.Class) ([]byte, error) {
	object, err := r.travel(e)
	if err != nil || class == nil {
		return object, err
	}
	if len(class.Inputs) > 0 {
		if r.Follow == nil {
			return nil, errors.New("a class has inputs, but no Follow is set")
		}
		if object, err = r.Follow(object, class.Inputs); err != nil {
			return nil, err
		}
	}
	if class.Shared && placement.Hooked(object) { // set by its space or by a rule
		if object, err = sjson.DeleteBytes(object, "spec.conversion"); err != nil {
			return nil, fmt.Errorf("remove the conversion webhook: %w", err)
		}
	}
	return object, r.fit(e, object, class.Definition)
}

// fit returns an error if a rendered entry is invalid by a definition; definition may be nil.
func (r *Renderer) fit(e *table.Entry, object []byte, definition *placement.Definition) error {
	if definition == nil {
		return nil
	}
	if r.Fit == nil {
		return errors.New("a class has a definition, but no Fit is set")
	}
	o, err := key.ParseObject(e.Key)
	if err != nil {
		return err
	}
	return r.Fit(object, o.Resource == key.CRDs, definition)
}

// travel returns the part of an object that leaves its space. It depends only on the resource and
// the bytes; all versions of a resource have the same rules.
func (r *Renderer) travel(e *table.Entry) ([]byte, error) {
	o, err := key.ParseObject(e.Key)
	if err != nil {
		return nil, err
	}
	if kind, ok := r.builtin.ForStorage(o.Resource); ok {
		return kind.Travel(e.Value)
	}
	return downsync.Custom(o.Resource.APIGroup()).Travel(e.Value)
}
