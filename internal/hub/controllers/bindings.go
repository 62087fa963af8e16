package controllers

import (
	"context"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// ofProvider names all bindings of what a space exports.
const ofProvider = "provider/"

// A binding is written bindingsAtOnce times as its provider changes, and then once in
// bindingPace: what a provider does over and over costs its consumers' log little. What the
// space has of it follows from the provider's objects meanwhile.
const (
	bindingPace    = 10 * time.Second
	bindingsAtOnce = 10
)

// bindings empties APIBindings that are being deleted, and keeps the status of the others to
// what is exported and free. A change of a provider is looked at once for all that have
// bound it.
func (c *Controllers) bindings() *controller {
	var all *controller
	pace := newSeldom(c.config.Now, bindingPace, bindingsAtOnce)
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
		if left := pace.wait(k); left > 0 {
			return againError(left)
		}
		wrote, err := c.config.Spaces.SettleBinding(ctx, row)
		if wrote {
			pace.wrote(k)
		}
		return err
	}
	rows := inAllSpaces(key.APIBindings)
	all = c.controller("apibindings", reconcile,
		c.follow(source{table.ResourceTopic(key.APIBindings), rows, c.besides}),
		c.follow(source{table.ResourceTopic(key.APIExports), rows, c.exporting}),
		c.follow(source{table.ResourceTopic(key.CRDs), rows, c.exporting}),
		c.follow(source{table.PrefixTopic(key.ResourcePrefix(key.Root, key.Spaces)), rows, c.exporting}))
	return all
}

// besides are the binding that has changed, and those of its space that may get the names
// that it has let go of.
func (c *Controllers) besides(ch table.Change) []string {
	if ch.Cur != nil {
		return byKey(ch)
	}
	s, _, _, _ := key.Split(ch.Row().Key)
	return bindingsIn(c.config.Table.Snapshot(), s)
}

// exporting are the bindings that an APIExport, a CRD or a provider's Space concerns.
func (c *Controllers) exporting(ch table.Change) []string {
	s, r, _, ok := key.Split(ch.Row().Key)
	switch {
	case !ok:
		return nil
	case r == key.APIBindings: // what is there at the start
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
	return append(bindingsIn(c.config.Table.Snapshot(), s), ofProvider+string(s))
}

// sameSpace says that a Space is there as it was, for its consumers.
func sameSpace(ch table.Change) bool {
	return ch.Prev != nil && ch.Cur != nil && ch.Prev.Meta.UID == ch.Cur.Meta.UID && ch.Prev.Meta.Deleting == ch.Cur.Meta.Deleting
}

// sameSpec says that an APIExport offers what it did.
func sameSpec(ch table.Change) bool {
	return sameSpace(ch) && ch.Prev.Meta.Generation == ch.Cur.Meta.Generation &&
		gjson.GetBytes(ch.Prev.Value, "metadata.labels").Raw == gjson.GetBytes(ch.Cur.Value, "metadata.labels").Raw
}

// sameDefinition says that a CRD defines what it did, by the names that it had.
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

// boundTo are the bindings of what a space exports.
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
