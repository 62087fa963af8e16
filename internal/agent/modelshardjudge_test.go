package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// watch looks which agents act: for a space, no two. With the cluster's lock.
func (c *crew) watch() {
	who := map[key.Space]*life{}
	for _, l := range c.lives {
		if l.line.dead.Load() {
			continue
		}
		if _, _, err := l.fence.Held(); err != nil {
			continue
		}
		for _, space := range c.spaces {
			if !l.shard.Contains(space) {
				continue
			}
			if other := who[space]; other != nil {
				c.wrongs(fmt.Sprintf("%s and %s act for space %s", other.name, l.name, space))
			}
			who[space], c.acted[space] = l, l
		}
	}
}

// wrongs records violations.
func (c *crew) wrongs(what string) {
	if !slices.Contains(c.bad, what) {
		c.bad = append(c.bad, what)
	}
}

// spaceAt returns the space of an object at the cluster.
func spaceAt(o *thing) key.Space {
	if o == nil || o.foreign {
		return ""
	}
	return key.Space(o.meta("labels", v1alpha1.SpaceLabel))
}

// checkChange checks a change that an agent is about to make, with the cluster's lock.
func (c *crew) checkChange(l *life, verb string, before, after *thing) {
	o, space := before, spaceAt(before)
	if after != nil {
		o, space = after, key.Space(after.meta("labels", v1alpha1.SpaceLabel))
	}
	c.tell("    %s: %s %s", l.name, verb, o.id)
	wrong := func(format string, args ...any) {
		c.wrongs(fmt.Sprintf("%s: %s %s: ", l.name, verb, o.id) + fmt.Sprintf(format, args...))
	}
	c.watch()
	if verb == "create" && implied(after) {
		after.foreign = true
		return
	}
	switch former := spaceAt(before); {
	case !l.shard.Contains(space):
		wrong("it is of space %s", space)
	case former != "" && !l.shard.Contains(former):
		wrong("it is of space %s, of another shard", former)
	case c.acted[space] != nil && c.acted[space].shard.Whole() && l.shard.Whole(): // what one has sent that was killed
	case c.acted[space] != l:
		actor := "nobody"
		if c.acted[space] != nil {
			actor = c.acted[space].name
		}
		wrong("for space %s acts %s", space, actor)
	}
	k := key.Object{Space: space, Identity: o.id}.Path()
	switch verb {
	case "apply":
		if sum, ok := c.ended[k]; ok && before == nil && sum == leafAt(after) {
			wrong("it has completed, as the hub knows")
		}
		after.foreign = false
	case "mark", "refresh", "hand over":
	case "delete":
		if before.foreign {
			wrong("it is not ours")
		}
		if !c.dropped[k] {
			wrong("nobody said that it is to go")
		}
		for _, x := range c.cluster.objects {
			inside := before.id.Resource == key.Namespaces && x.id.Namespace == before.id.Name || before.id == widgetsCRD && x.id.APIGroup() == "example.com"
			seen := max(l.line.saw[collection{x.id.Resource, ""}], l.line.saw[collection{x.id.Resource, x.id.Namespace}])
			cascades := before.meta("annotations", v1alpha1.CascadeAnnotation) == "true"
			if inside && x.created <= seen && (x.foreign && !cascades || !l.shard.Contains(spaceAt(x))) {
				wrong("%s of space %s is inside", x.id, spaceAt(x))
			}
		}
	default:
		wrong("that is not to be done")
	}
}

// leafAt returns a hash of the source UID and the value of an object at the cluster.
func leafAt(o *thing) wire.Sum {
	return wire.SumOf([]byte(o.meta("annotations", v1alpha1.SourceUIDAnnotation) + " " + o.fields[fieldPath("data", "v")]))
}

// leafIn returns leafAt of the object of a put.
func leafIn(p *wire.Put) wire.Sum {
	return wire.SumOf([]byte(p.UID + " " + valueIn(p)))
}

// valueIn returns the value in a put, as JSON.
func valueIn(p *wire.Put) string {
	_, v, _ := strings.Cut(string(p.Object), `"v":`)
	return v[:strings.IndexAny(v, ",}")]
}

// reported records the completion in a report that the hub has received, with the hub's lock.
func (c *crew) reported(l wire.ReportLine) {
	content := c.hub.content(c.hub.revision)
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	if p := content[l.Key].Put; l.Report != nil && l.Report.Completed != "" && p != nil && p.UID == l.Report.UID && p.Digest == l.Report.Digest {
		c.ended[l.Key] = leafIn(p)
	} else {
		delete(c.ended, l.Key)
	}
}

// check compares the cluster, the reports and the stores with the desired objects.
func (c *crew) check() error {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	if len(c.bad) > 0 {
		return errors.New(strings.Join(c.bad, "\n"))
	}
	content := c.hub.content(c.hub.revision)
	for k, f := range content {
		if err := c.checkKey(k, f); err != nil {
			return fmt.Errorf("%s: %w", k, err)
		}
	}
	for _, o := range c.cluster.objects {
		if o.terminating {
			return fmt.Errorf("%s is being deleted", o.id)
		}
		k := key.Object{Space: spaceAt(o), Identity: o.id}.Path()
		if o.foreign || content[k].Put != nil {
			continue
		}
		// Of what a store that was lost knew, the hub takes no report any more.
		if r := c.hub.reports[k]; !c.used(o) || content[k].Conflict == nil && r.State != "" && (r.State != wire.Orphaned || r.Reason != v1alpha1.ReasonInUse) {
			return fmt.Errorf("%s of space %s is not to be there, and reported %s/%s; it is in use: %t", o.id, spaceAt(o), r.State, r.Reason, c.used(o))
		}
	}
	for k, r := range c.hub.reports {
		o := c.cluster.objects[identityOf(k).String()]
		if _, ok := content[k]; !ok && (r.State != wire.Orphaned || o == nil || string(spaceAt(o)) != k[:strings.Index(k, "/")]) {
			return fmt.Errorf("the hub has a report of %s, which is not desired: %s/%s", k, r.State, r.Reason)
		}
	}
	return c.checkStores(content)
}

// used reports whether a Namespace or a definition has objects.
func (c *crew) used(o *thing) bool {
	for _, x := range c.cluster.objects {
		if o.id.Resource == key.Namespaces && x.id.Namespace == o.id.Name || o.id == widgetsCRD && x.id.APIGroup() == "example.com" {
			return true
		}
	}
	return false
}

// checkKey compares the object and the report of a key with its frame.
func (c *crew) checkKey(k string, f wire.Frame) error {
	o, r := c.cluster.objects[identityOf(k).String()], c.hub.reports[k]
	space := k[:strings.Index(k, "/")]
	reported := fmt.Sprintf("%s/%s %s", r.State, r.Reason, r.Message)
	switch {
	case f.Conflict != nil:
		if r.State != wire.InConflict {
			return fmt.Errorf("another space has it, and it is reported %s", reported)
		}
		return nil
	case !c.cluster.serves(identityOf(k).Resource):
		if r.State != wire.Unsupported {
			return fmt.Errorf("nothing serves it, and it is reported %s", reported)
		}
		return nil
	case o != nil && !o.foreign && string(spaceAt(o)) != space && c.used(o): // another space has let it go, and it stays
		if r.State != wire.InConflict {
			return fmt.Errorf("it is of space %s, and reported %s", spaceAt(o), reported)
		}
		return nil
	case r.State != wire.Applied || r.UID != f.Put.UID || r.Digest != f.Put.Digest:
		return fmt.Errorf("it is reported %s of %s", reported, r.UID)
	case o == nil && c.ended[k] == leafIn(f.Put):
		return nil
	case o == nil:
		return errors.New("it is missing")
	case o.foreign || string(spaceAt(o)) != space:
		return fmt.Errorf("it is of space %s", spaceAt(o))
	case o.fields[fieldPath("data", "v")] != valueIn(f.Put) && r.Completed == "":
		return fmt.Errorf("it has %s, not %s", o.fields[fieldPath("data", "v")], valueIn(f.Put))
	}
	return nil
}

var errNotActing = errors.New("does not act")

// checkStores compares the stores of the agents with the desired objects of their shards.
func (c *crew) checkStores(content map[string]wire.Frame) error {
	known := map[string]string{}
	for _, l := range c.lives {
		if _, _, err := l.fence.Held(); err != nil {
			if l.line.dead.Load() || c.running(l.shard.Number()) != l {
				continue
			}
			if !slices.ContainsFunc(c.lives, func(x *life) bool { return x != l && x.shard == l.shard }) {
				return fmt.Errorf("%s %w: %w", l.name, errNotActing, err)
			}
			continue
		}
		if !l.shard.Whole() && c.cluster.leases[c.leaseOf(l.shard.Number())] == nil {
			return fmt.Errorf("%s is evicted, and does not know it yet", l.name)
		}
		if m := l.store.Meta(); m.Unsent > 0 {
			return fmt.Errorf("%s has %d reports that are not sent", l.name, m.Unsent)
		}
		if err := l.store.EachWant(func(o key.Object, x *store.Want) error {
			k := o.Path()
			if f, ok := content[k]; !ok || leafOf(f) != x.Sum(k) || known[k] != "" {
				return fmt.Errorf("%s knows of %s, which is not what the hub says, or %s knows it, too", l.name, k, known[k])
			}
			known[k] = l.name
			return nil
		}); err != nil {
			return err
		}
	}
	for k := range content {
		if known[k] == "" {
			return fmt.Errorf("no agent that acts knows of %s", k)
		}
	}
	return nil
}
