package agentapi

import (
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

// content is what is desired at one location, as its agent is told. Unless it is
// empty for another reason, it is a function of the rows alone: the same rows give the same frames and
// sums at every hub.
type content struct {
	location key.Location
	// shard is the part of it that the agent has.
	shard    key.Shard
	renderer *render.Renderer
	// can is what the agent can do that not all can.
	can abilities
	// purged says that the operator has the location purged: its content is empty.
	purged bool
	// strange says that the agent does not know where the location has objects put: its
	// content is empty, since it would put them elsewhere. An agent of this version that is
	// started in its place then finds nothing that was not put as it would.
	strange bool
}

// abilities are what the agents of the version before can't do.
type abilities struct {
	// impersonates: it obeys Policy.ServiceAccount; another is told to leave alone what has
	// one. confirms: it confirms what is to be gone; another is told that it is not desired.
	// prefixes: it obeys Settings.Namespaces; another is sent nothing where there is one.
	// sees: it reports what was not placed; another is not asked to, nor told of such reports.
	impersonates, confirms, prefixes, sees bool
}

// abilitiesOf are those of the agent that has sent a request.
func abilitiesOf(r *http.Request) abilities {
	can := func(what string) bool { return wire.Capable(r.Header, what) }
	return abilities{can(wire.Impersonates), can(wire.Confirms), can(wire.Prefixes), can(wire.Sees)}
}

// lack is what an agent would have to know for a location with settings; empty: nothing.
func (b abilities) lack(s wire.Settings) string {
	if s.Namespaces != "" && !b.prefixes {
		return "spec.namespaces: " + s.Namespaces
	}
	return ""
}

// asked are settings as an agent is told them that can do that.
func (b abilities) asked(s wire.Settings) wire.Settings {
	if !b.sees {
		s.Upsync, s.UpsyncObjects, s.UpsyncBytes, s.Dropped = nil, 0, 0, 0
	}
	return s
}

// asked are settings as the agent is told them.
func (c *content) asked(s wire.Settings) wire.Settings {
	if !c.shard.Whole() {
		s.Upsync = slices.DeleteFunc(slices.Clone(s.Upsync), func(u wire.Upsync) bool { return !c.shard.Has(key.Space(u.Space)) })
	}
	return c.can.asked(s)
}

// contentOf is the content of a location's shard as its settings are now, for an agent that
// can do that.
func (a *Server) contentOf(l key.Location, shard key.Shard, can abilities) content {
	c := content{location: l, shard: shard, renderer: a.config.Renderer, can: can}
	if _, settings, err := a.Settings(l); err == nil {
		c.set(settings)
	}
	return c
}

func (c *content) set(s wire.Settings) { c.purged, c.strange = s.Purge, c.can.lack(s) != "" }

// entry is how one row takes part in the content.
type entry struct {
	key    string
	uid    string
	digest wire.Sum
	policy wire.Policy
	// leaves makes the row one that is to be gone, whatever else.
	leaves bool
	// held makes the row a hold, for the reason heldFor, and owner a conflict; if both are
	// empty it is a put.
	held, heldFor, owner string
	class                *placement.Class
}

// yields is what agents are told of an object that is left to their location.
const yields = "a Placement of its space asks to see what is born at the location and is called so"

// cannotImpersonate is what the agents of the version before say of what is placed in the
// name of a ServiceAccount.
const cannotImpersonate = "the location admits it with the rights of a ServiceAccount, for which its agent is too old"

// entry returns nil for a row that is not part of the content.
func (c *content) entry(row *table.Row) *entry {
	if e := new(entry); c.read(row, e) {
		return e
	}
	return nil
}

// read says whether a row is part of the content, and how. Walks read millions of rows, one
// after the other into the same entry.
func (c *content) read(row *table.Row, e *entry) bool {
	if row == nil || row.In == nil || c.purged || c.strange {
		return false
	}
	m, ok := row.In.(*placement.Membership)
	if !ok {
		return false
	}
	path, _ := key.PathOf(row.Key)
	if !c.has(path) {
		return false
	}
	place, ok := m.Place(c.location)
	switch {
	case !ok && m.Yields(c.location):
		// A hold, so that no agent takes it for removed, whether or not it knows the reason.
		*e = entry{key: path, uid: row.Meta.UID, held: yields, heldFor: v1alpha1.ReasonUpsynced, digest: wire.SumOf([]byte("hold:" + v1alpha1.ReasonUpsynced))}
		return true
	case !ok:
		return false
	}
	if !c.can.sees {
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
		e.digest = wire.SumOf([]byte("hold:" + e.heldFor)) // not the text, which is for people
	}
	return true
}

// has says whether what is at a path, which begins with its space, is of the agent's shard.
func (c *content) has(path string) bool {
	if c.shard.Whole() {
		return true
	}
	space, _, _ := strings.Cut(path, "/")
	return c.shard.Has(key.Space(space))
}

// sum is the entry's part of the content's root.
func (e *entry) sum() wire.Sum {
	if e == nil {
		return wire.Sum{}
	}
	return wire.LeafSum(e.key, e.uid, e.digest, e.policy)
}

// frame is what an agent is told of a row that is part of the content.
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
	if err != nil { // Digest would have said so; the row has not changed since
		return wire.Frame{Hold: &wire.Hold{Key: e.key, UID: e.uid, Digest: e.digest, Reason: v1alpha1.ReasonNotRendered, Error: err.Error()}}
	}
	return wire.Frame{Put: &wire.Put{
		Key: e.key, UID: e.uid, Generation: row.Meta.Generation,
		Digest: e.digest, Policy: e.policy, Object: rendered.Object, ReportFirst: waits(row),
	}}
}

// waits says that the deletion of a row's object waits for all locations that may have it.
func waits(row *table.Row) bool {
	m, ok := row.In.(*placement.Membership)
	return ok && m.Waits()
}

// change is what an agent is told of a change, with the entry before and after it. ok is
// false if the agent need not know.
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

// del is what the agent is told of a row that is no longer in the content.
func (c content) del(ch table.Change, was *entry) *wire.Del {
	by, named := placement.LetGo(ch, c.location)
	d := &wire.Del{Key: was.key, UID: was.uid, Cause: wire.Unassigned, Placement: string(by)}
	if named {
		d.Cause = wire.Deleted
	}
	return d
}

// total is the root and the size of the content that rows make.
func (c content) total(rows []*table.Row) (root wire.Sum, count int) {
	var e entry
	for _, row := range rows {
		if c.read(row, &e) {
			root, count = root.Add(e.sum()), count+1
		}
	}
	return root, count
}
