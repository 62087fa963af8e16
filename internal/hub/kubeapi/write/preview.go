package write

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/apiserver/pkg/warning"

	"orrery.dev/orrery/internal/protocol/key"
)

// preview adds warnings about the effects of a policy to a successful dry run. It returns err, or an
// error of its own.
func (o *objects) preview(ctx context.Context, out runtime.Object, err error, dryRun []string) error {
	if err != nil || !o.previews(dryRun) {
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

// previews reports whether a request is a dry run of a policy. Other writes need no preview.
func (o *objects) previews(dryRun []string) bool {
	return o.server.config.Preview != nil && dryrun.IsDryRun(dryRun) &&
		(o.kind.Resource == key.Placements || o.kind.Resource == key.Customizers)
}

// warn adds warnings about the effects of a policy with this value, or of its deletion if value is nil.
func (o *objects) warn(ctx context.Context, name string, value []byte, dryRun []string) {
	space, ok := SpaceFromContext(ctx)
	if !ok || !o.previews(dryRun) {
		return
	}
	for _, line := range o.server.config.Preview(ctx, key.Object{Space: space, Identity: key.Identity{Resource: o.kind.Resource, Name: name}}, value) {
		warning.AddWarning(ctx, "", line)
	}
}
