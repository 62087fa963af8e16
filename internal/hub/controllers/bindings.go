package controllers

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ofProvider is the prefix of queue entries for all bindings of a space's exports.
const ofProvider = "provider/"

// A binding is written up to bindingsAtOnce times as its provider changes, and then once per
// bindingPace, so that a provider that changes all the time costs its consumers' log little.
const (
	bindingPace    = 10 * time.Second
	bindingsAtOnce = 10
)

// bindingConfig contains the dependencies of the bindingController.
type bindingConfig struct {
	Table *table.Table
	// Finish does the next step of the deletion of an APIBinding.
	Finish func(ctx context.Context, s key.Space, name string) (write.Progress, error)
	// Update writes the status of an APIBinding, and reports whether it differed.
	Update func(context.Context, *table.Row) (wrote bool, err error)
	// Consumers returns the spaces with APIBindings to any export of a space, in effect or not.
	Consumers func(provider key.Space) []key.Space
	Now       func() time.Time
}

// bindingController completes the deletion of APIBindings, and updates the status of the others. A
// change of a provider is one key for all its bindings.
type bindingController struct {
	config  bindingConfig
	limiter *writeLimiter
	// bound are the bindings of changed providers.
	bound *keySet[string]
}

func newBindingController(config bindingConfig) *bindingController {
	return &bindingController{config, newWriteLimiter(config.Now, bindingPace, bindingsAtOnce), newKeySet[string]()}
}

func (c *bindingController) watches() []watch {
	topics := append(resourceTopics(key.APIBindings, key.APIExports, key.CRDs), prefixTopics(key.ResourcePrefix(key.Root, key.Spaces))...)
	return []watch{takeAll(c.bound), follow(c.config.Table, source{topics, inAllSpaces(key.APIBindings), c.concerned})}
}

func (c *bindingController) reconcile(ctx context.Context, k string) error {
	if provider, ok := strings.CutPrefix(k, ofProvider); ok {
		c.bound.add(c.boundTo(key.Space(provider)))
		return nil
	}
	row, _ := c.config.Table.Get(k)
	switch {
	case row == nil:
		return nil
	case row.Meta.Deleting:
		o, err := key.ParseObject(k)
		if err != nil {
			return err
		}
		return requeue(c.config.Finish(ctx, o.Space, o.Name))
	}
	if left := c.limiter.wait(k); left > 0 {
		return againError(left)
	}
	wrote, err := c.config.Update(ctx, row)
	if wrote {
		c.limiter.wrote(k)
	}
	return err
}

// concerned enqueues the bindings that a change of an APIBinding, an APIExport, a CRD or a
// provider's Space may affect.
func (c *bindingController) concerned(ch table.Change) []string {
	s, r, _, ok := key.Split(ch.Row().Key)
	switch {
	case !ok:
		return nil
	case r == key.APIBindings && ch.Cur == nil: // its names are free for the others
		return besides(c.config.Table, s, key.APIBindings)
	case r == key.APIBindings:
		return byKey(ch)
	case r == key.Spaces:
		o, err := key.ParseObject(ch.Row().Key)
		if err != nil || sameSpace(ch) {
			return nil
		}
		return []string{ofProvider + o.Name}
	case r == key.APIExports && sameSpec(ch):
		return nil
	case r == key.APIExports:
		return []string{ofProvider + string(s)}
	case sameDefinition(ch):
		return nil
	}
	return append(besides(c.config.Table, s, key.APIBindings), ofProvider+string(s))
}

// sameSpace reports whether a change of a Space is irrelevant for its consumers.
func sameSpace(ch table.Change) bool {
	return ch.Prev != nil && ch.Cur != nil && ch.Prev.Meta.UID == ch.Cur.Meta.UID && ch.Prev.Meta.Deleting == ch.Cur.Meta.Deleting
}

// sameSpec reports whether a change of an APIExport leaves its offer unchanged.
func sameSpec(ch table.Change) bool {
	return sameSpace(ch) && ch.Prev.Meta.Generation == ch.Cur.Meta.Generation &&
		gjson.GetBytes(ch.Prev.Value, "metadata.labels").Raw == gjson.GetBytes(ch.Cur.Value, "metadata.labels").Raw
}

// sameDefinition reports whether a change of a CRD leaves its definition and names unchanged.
func sameDefinition(ch table.Change) bool {
	return sameSpace(ch) && ch.Prev.Meta.Generation == ch.Cur.Meta.Generation &&
		gjson.GetBytes(ch.Prev.Value, "status").Raw == gjson.GetBytes(ch.Cur.Value, "status").Raw
}

// boundTo returns the bindings of a space's exports.
func (c *bindingController) boundTo(provider key.Space) (keys []string) {
	state := c.config.Table.Snapshot()
	for _, space := range c.config.Consumers(provider) {
		state.Ascend(key.ResourcePrefix(space, key.APIBindings), func(row *table.Row) bool {
			if gjson.GetBytes(row.Value, "spec.export.space").Str == string(provider) {
				keys = append(keys, row.Key)
			}
			return true
		})
	}
	return keys
}
