package agentapi

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/render"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// content is the desired state of one location or shard, in the frames for its agent. It depends
// only on rows, settings and the abilities of the agent: all hubs send the same frames and hashes.
type content struct {
	location key.Location
	// shard is the shard of the agent.
	shard    key.Shard
	renderer *render.Renderer
	// can has the abilities of the agent.
	can abilities
	// purged is set if the operator purges the location: the content is empty.
	purged bool
	// strange is set if the agent does not support the namespace mapping of the location. The
	// content is empty, because the agent would apply objects to other namespaces. A newer agent
	// then finds no objects in wrong namespaces.
	strange bool
}

// abilities are the capabilities that agents of the previous version lack.
type abilities struct {
	// impersonates: the agent obeys Policy.ServiceAccount. For others, such objects are held.
	// confirms: it confirms removals by Gone frames. For others, such objects are not desired.
	// prefixes: it obeys Settings.Namespaces. Others get no content if these are set.
	// upsyncs: it reports objects that no Placement put there. Others are not requested to.
	impersonates, confirms, prefixes, upsyncs bool
}

// abilitiesOf returns the abilities of the agent that sent a request.
func abilitiesOf(r *http.Request) abilities {
	can := func(what string) bool { return wire.Capable(r.Header, what) }
	return abilities{can(wire.Impersonates), can(wire.Confirms), can(wire.Prefixes), can(wire.Upsyncs)}
}

// lack returns the setting that the agent would have to support, or "".
func (b abilities) lack(s wire.Settings) string {
	if s.Namespaces != "" && !b.prefixes {
		return "spec.namespaces: " + s.Namespaces
	}
	return ""
}

// adapt returns settings without those that the agent does not support.
func (b abilities) adapt(s wire.Settings) wire.Settings {
	if !b.upsyncs {
		s.Upsync, s.UpsyncObjects, s.UpsyncBytes, s.Dropped = nil, 0, 0, 0
	}
	return s
}

// adapt returns settings for the agent's shard and abilities.
func (c *content) adapt(s wire.Settings) wire.Settings {
	if !c.shard.Whole() {
		s.Upsync = slices.DeleteFunc(slices.Clone(s.Upsync), func(u wire.Upsync) bool { return !c.shard.Contains(key.Space(u.Space)) })
	}
	return c.can.adapt(s)
}

func (c *content) set(s wire.Settings) { c.purged, c.strange = s.Purge, c.can.lack(s) != "" }

// entry is the part of one row in the content.
type entry struct {
	key    string
	uid    string
	digest wire.Sum
	policy wire.Policy
	// leaves makes the row a Gone frame, whatever the other fields are.
	leaves bool
	// held makes the row a hold, for the reason heldFor, and owner makes it a conflict. Without
	// both, it is a put.
	held, heldFor, owner string
	class                *placement.Class
}

// leftToLocation is the message of a hold for an object that the location may create itself.
const leftToLocation = "a Placement of the space upsyncs an object of this name from the location"

// cannotImpersonate is the message of a hold for agents that do not obey Policy.ServiceAccount.
const cannotImpersonate = "the location admits it with the rights of a ServiceAccount, for which its agent is too old"

// entry returns nil for a row that is not part of the content.
func (c *content) entry(row *table.Row) *entry {
	if e := new(entry); c.read(row, e) {
		return e
	}
	return nil
}

// read reports whether a row is part of the content, and fills the entry. A comparison reads
// millions of rows into the same entry.
func (c *content) read(row *table.Row, e *entry) bool {
	if row == nil || row.In == nil || c.purged || c.strange {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return false
	}
	path, _ := key.PathOf(row.Key)
	if !c.contains(path) {
		return false
	}
	place, ok := m.Place(c.location)
	switch {
	case !ok && m.Yields(c.location):
		// A hold prevents the removal of the object, even by agents that do not know the reason.
		*e = entry{key: path, uid: row.Meta.UID, held: leftToLocation, heldFor: v1alpha1.ReasonUpsynced, digest: wire.SumOf([]byte("hold:" + v1alpha1.ReasonUpsynced))}
		return true
	case !ok:
		return false
	}
	if !c.can.upsyncs {
		place.Policy.Associated = ""
	}
	if place.Leaves {
		*e = entry{key: path, uid: row.Meta.UID, digest: wire.SumOf([]byte("gone")), leaves: true}
		return c.can.confirms
	}
	if place.Policy.ServiceAccount != "" && !c.can.impersonates && place.Held == "" {
		place.Held, place.HeldFor = cannotImpersonate, v1alpha1.ReasonCannotImpersonate
	}
	d := objectstate.DesiredOf(c.renderer.Digest, row, place)
	*e = entry{key: path, uid: row.Meta.UID, policy: d.Policy, digest: d.Digest, owner: d.Owner, held: d.Held, heldFor: d.HeldFor, class: place.Class}
	switch {
	case e.owner != "":
		e.held, e.policy = "", wire.Policy{} // a conflict frame has none
		e.digest = wire.SumOf([]byte("conflict:" + e.owner))
	case e.held != "":
		e.policy = wire.Policy{}                           // nor has a hold
		e.digest = wire.SumOf([]byte("hold:" + e.heldFor)) // without the message, which may change
	}
	return true
}

// contains reports whether a path, which starts with a space, belongs to the agent's shard.
func (c *content) contains(path string) bool {
	if c.shard.Whole() {
		return true
	}
	space, _, _ := strings.Cut(path, "/")
	return c.shard.Contains(key.Space(space))
}

// sum returns the entry's part of the content hash.
func (e *entry) sum() wire.Sum {
	if e == nil {
		return wire.Sum{}
	}
	return wire.LeafSum(e.key, e.uid, e.digest, e.policy)
}

// frame returns the frame for a row that is part of the content.
func (c content) frame(row *table.Row, e *entry) wire.Frame {
	switch {
	case e.leaves:
		kind := gjson.GetManyBytes(row.Value, "apiVersion", "kind")
		return wire.Frame{Gone: &wire.Gone{Key: e.key, UID: e.uid, Digest: e.digest, APIVersion: kind[0].Str, Kind: kind[1].Str}}
	case e.owner != "":
		return wire.Frame{Conflict: &wire.Conflict{Key: e.key, UID: e.uid, Digest: e.digest, Owner: e.owner}}
	case e.held != "":
		return wire.Frame{Hold: &wire.Hold{Key: e.key, UID: e.uid, Digest: e.digest, Reason: e.heldFor, Error: e.held}}
	}
	rendered, err := c.renderer.Render(row.Entry, e.class)
	if err != nil { // can't happen: Digest has rendered the row
		return wire.Frame{Hold: &wire.Hold{Key: e.key, UID: e.uid, Digest: e.digest, Reason: v1alpha1.ReasonNotRendered, Error: err.Error()}}
	}
	return wire.Frame{Put: &wire.Put{
		Key: e.key, UID: e.uid, Generation: row.Meta.Generation,
		Digest: e.digest, Policy: e.policy, Object: rendered.Object, ReportFirst: waits(row),
	}}
}

// waits reports whether the deletion of a row's object waits for its removal at all locations.
func waits(row *table.Row) bool {
	m, ok := row.In.(*placement.Membership)
	return ok && m.Waits()
}

// change returns the frame for a change, with the entry before and after it. ok is false if the
// change does not affect the agent.
func (c content) change(ch table.Change) (f wire.Frame, before, after *entry, ok bool) {
	before, after = c.entry(ch.Prev), c.entry(ch.Cur)
	switch {
	case before == nil && after == nil:
		return f, nil, nil, false
	case after == nil:
		return wire.Frame{Del: c.del(ch, before)}, before, nil, true
	case before != nil && before.sum() == after.sum():
		return f, before, after, false
	}
	return c.frame(ch.Cur, after), before, after, true
}

// del returns the frame for a row that is no longer in the content.
func (c content) del(ch table.Change, previous *entry) *wire.Del {
	policy, named := placement.LetGo(ch, c.location)
	d := &wire.Del{Key: previous.key, UID: previous.uid, Cause: wire.Unassigned, Placement: string(policy)}
	if named {
		d.Cause = wire.Deleted
	}
	return d
}

// total returns the content hash and the size of the content of some rows. It ends with the context.
func (c content) total(ctx context.Context, rows []*table.Row) (root wire.Sum, count int, err error) {
	var e entry
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return wire.Sum{}, 0, err
		}
		if c.read(row, &e) {
			root, count = root.Add(e.sum()), count+1
		}
	}
	return root, count, nil
}
