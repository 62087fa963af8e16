package controllers

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

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

// bindings completes the deletion of APIBindings, and updates the status of the others. A change of
// a provider is one queue entry for all its bindings.
func (c *Controllers) bindings() *controller {
	var all *controller
	limiter := newWriteLimiter(c.config.Now, bindingPace, bindingsAtOnce)
	finish := c.finish(c.config.Spaces.FinishBinding)
	reconcile := func(ctx context.Context, k string) error {
		if provider, ok := strings.CutPrefix(k, ofProvider); ok {
			all.enqueue(c.boundTo(key.Space(provider)))
			return nil
		}
		row, _ := c.config.Table.Get(k)
		switch {
		case row == nil:
			return nil
		case row.Meta.Deleting:
			return finish(ctx, k)
		}
		if left := limiter.wait(k); left > 0 {
			return againError(left)
		}
		wrote, err := c.config.Spaces.SettleBinding(ctx, row)
		if wrote {
			limiter.wrote(k)
		}
		return err
	}
	topics := append(resourceTopics(key.APIBindings, key.APIExports, key.CRDs), table.PrefixTopic(key.ResourcePrefix(key.Root, key.Spaces)))
	all = c.controller("apibindings", reconcile, c.follow(source{topics, inAllSpaces(key.APIBindings), c.exporting}))
	return all
}

// besides returns the changed binding. After a deletion, it returns all bindings of the space,
// since a name is free again.
func (c *Controllers) besides(ch table.Change) []string {
	if ch.Cur != nil {
		return byKey(ch)
	}
	s, _, _, _ := key.Split(ch.Row().Key)
	return bindingsIn(c.config.Table.Snapshot(), s)
}

// exporting returns the bindings that a change of an APIBinding, an APIExport, a CRD or a
// provider's Space may affect.
func (c *Controllers) exporting(ch table.Change) []string {
	s, r, _, ok := key.Split(ch.Row().Key)
	switch {
	case !ok:
		return nil
	case r == key.APIBindings:
		return c.besides(ch)
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
	return append(bindingsIn(c.config.Table.Snapshot(), s), ofProvider+string(s))
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

func bindingsIn(state *table.Snapshot, s key.Space) (keys []string) {
	state.Ascend(key.ResourcePrefix(s, key.APIBindings), func(row *table.Row) bool {
		keys = append(keys, row.Key)
		return true
	})
	return keys
}

// boundTo returns the bindings of a space's exports.
func (c *Controllers) boundTo(provider key.Space) (keys []string) {
	state := c.config.Table.Snapshot()
	for _, space := range c.config.BindingTo(provider) {
		state.Ascend(key.ResourcePrefix(space, key.APIBindings), func(row *table.Row) bool {
			if gjson.GetBytes(row.Value, "spec.export.space").Str == string(provider) {
				keys = append(keys, row.Key)
			}
			return true
		})
	}
	return keys
}
