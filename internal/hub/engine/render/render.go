// Package render renders objects: it makes what a location gets of an object in a space.
//
// The result is a function of the object and of a class, which is all that it knows of
// the location: it must never know who asks, and locations of one class share one
// result.
package render

import (
	"context"
	"encoding/json"
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

// keptBytes bounds the results that are kept, in bytes.
const keptBytes = 8 << 20

// Rendered is an object as a location gets it.
type Rendered struct {
	// Object is canonical JSON: what the user wrote, without what stays in the space, and
	// with the rules of the class applied, and right by the class's definition.
	Object json.RawMessage
	// Digest is the SHA-256 of Object.
	Digest wire.Sum
}

// Renderer renders objects. It is safe for concurrent use; one is shared by all users, so
// that they share results.
type Renderer struct {
	// Follow applies the inputs of a class to what travels of an object. It must be a
	// function of its arguments and return canonical JSON. It is set before the Renderer is
	// used, or nil if there are no such rules and no class has inputs.
	Follow func(object []byte, inputs []placement.Input) ([]byte, error)
	// Fit says why a rendered object is not right by the definition of a class; isCRD says that
	// it is a definition itself. It must be a function of its arguments. It is set before the
	// Renderer is used, or nil if no class has a definition.
	Fit func(object []byte, isCRD bool, by *placement.Definition) error
	// Tell tells what each rule does by which Follow makes its result; nil with Follow.
	Tell func(ctx context.Context, object []byte, inputs []placement.Input) ([]rules.Effect, error)

	builtin *kinds.Catalog
	kept    results
	digests digests
}

// New makes a Renderer. The kinds of builtin are those that need no CRD.
func New(builtin *kinds.Catalog) *Renderer {
	return &Renderer{builtin: builtin, kept: newResults(keptBytes), digests: newDigests()}
}

// Render renders an entry for locations of a class, whether or not it is assigned to any.
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
			if was := e.Rendered.Swap(&table.Rendered{Digest: digest, Inputs: class}); was != nil {
				r.keep(e, was)
			}
		}
		return Rendered{object, digest}, nil
	})
}

// Digest is the digest of what Render returns. An entry caches that of the class for which
// it was rendered last, so where there is only one class a digest is computed once; those
// of others are kept as far as there is room, and are those of all entries that travel alike.
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

// Try is Digest for a class that no location may ever have: the result is neither kept nor
// does it take the place of one that is.
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

func remembered(e *table.Entry, class *placement.Class) (digest wire.Sum, ok bool) {
	known := e.Rendered.Load()
	if known == nil || known.Inputs != any(class) {
		return wire.Sum{}, false
	}
	return known.Digest, true
}

// Effects tells what each rule of a class does to an entry's object, in order, up to one
// that fails. It ends with the context.
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
	if class.Shared && placement.Hooked(object) { // whoever has set that, its space or a rule
		if object, err = sjson.DeleteBytes(object, "spec.conversion"); err != nil {
			return nil, fmt.Errorf("leave the conversion webhook behind: %w", err)
		}
	}
	return object, r.fit(e, object, class.Definition)
}

// fit says why what is rendered of an entry is not right by a definition, if there is one.
func (r *Renderer) fit(e *table.Entry, object []byte, by *placement.Definition) error {
	if by == nil {
		return nil
	}
	if r.Fit == nil {
		return errors.New("a class has a definition, but no Fit is set")
	}
	o, err := key.ParseObject(e.Key)
	if err != nil {
		return err
	}
	return r.Fit(object, o.Resource == key.CRDs, by)
}

// travel is the part of an object that leaves its space. It depends only on the resource
// and the bytes; all versions of a resource travel alike.
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
