package write

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/internal/protocol/key"
)

// foretell warns, in a dry run, of what the write of a policy would do that has not failed
// with err, which it returns.
func (o *objects) foretell(ctx context.Context, out runtime.Object, err error, dryRun []string) error {
	if err != nil || !o.foretells(dryRun) {
		return err
	}
	m, err := meta.Accessor(out)
	if err != nil {
		return err
	}
	value, err := runtime.Encode(o.kind.StorageCodec, out)
	if err != nil {
		return err
	}
	o.warn(ctx, m.GetName(), value, dryRun)
	return nil
}

// foretells says whether something is to be foretold: real writes are not held up by it.
func (o *objects) foretells(dryRun []string) bool {
	return o.server.config.Foretell != nil && dryrun.IsDryRun(dryRun) &&
		(o.kind.Resource == key.Placements || o.kind.Resource == key.Customizers)
}

// warn warns of what would be if a policy were as a value, or deleted.
func (o *objects) warn(ctx context.Context, name string, value []byte, dryRun []string) {
	space, ok := SpaceFromContext(ctx)
	if !ok || !o.foretells(dryRun) {
		return
	}
	for _, line := range o.server.config.Foretell(ctx, key.Object{Space: space, Identity: key.Identity{Resource: o.kind.Resource, Name: name}}, value) {
		warning.AddWarning(ctx, "", line)
	}
}
