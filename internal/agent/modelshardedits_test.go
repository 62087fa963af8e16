package agent

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// What users do to the objects of agents that share a location, at the hub and at the cluster.

// edit makes the hub desire an object, unless another space has it.
func (c *crew) edit(k string, b int) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	content := c.hub.content(c.hub.revision)
	id := identityOf(k)
	for other, f := range content {
		if other != k && f.Put != nil && identityOf(other) == id {
			c.conflict(k, other)
			return
		}
	}
	c.put(k, content[k].Put, b)
}

// conflict makes the hub send a conflict: another space has the identity of a key.
func (c *crew) conflict(k, owner string) {
	c.tell("conflict %s with %s", k, owner)
	c.hub.write(wire.Frame{Conflict: &wire.Conflict{Key: k, UID: "u-" + k, Digest: wire.SumOf([]byte("conflict:" + owner)), Owner: owner}})
}

// put is edit with the hub's lock.
func (c *crew) put(k string, previous *wire.Put, b int) {
	id := identityOf(k)
	meta := map[string]any{"name": id.Name}
	if id.Namespace != "" {
		meta["namespace"] = id.Namespace
	}
	version := "v1"
	if g := id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	object := canonical(map[string]any{"apiVersion": version, "kind": servedKind(id.Resource).kind, "metadata": meta, "data": map[string]any{"v": fmt.Sprint(b % 3), "of": k}})
	c.seq++
	uid := fmt.Sprintf("u-%d", c.seq)
	if previous != nil {
		uid = previous.UID
	}
	p := &wire.Put{Key: k, UID: uid, Generation: c.hub.revision, Digest: wire.SumOf(object), Object: object, ReportFirst: b%4 == 0}
	if previous != nil && previous.Digest == p.Digest {
		return
	}
	c.tell("put %s uid %s v %d", k, uid, b%3)
	c.hub.write(wire.Frame{Put: p})
}

func identityOf(k string) key.Identity {
	o, err := key.ParsePath(k)
	if err != nil {
		panic(err)
	}
	return o.Identity
}

// drop has the hub no longer desire an object. What another space has of it takes its place.
func (c *crew) drop(k string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.dropOne(k)
}

func (c *crew) dropOne(k string) {
	content := c.hub.content(c.hub.revision)
	f, ok := content[k]
	if !ok {
		return
	}
	c.cluster.mu.Lock()
	c.dropped[k] = true
	c.cluster.mu.Unlock()
	c.tell("del %s", k)
	c.hub.write(del(k, wire.Deleted))
	if f.Put == nil {
		return
	}
	owner := ""
	for _, other := range slices.Sorted(maps.Keys(content)) {
		switch {
		case content[other].Conflict == nil || identityOf(other) != identityOf(k):
		case owner == "":
			owner = other
			c.put(other, nil, 1)
		default:
			c.conflict(other, owner)
		}
	}
}

// dropAll has the hub desire nothing of a space any more.
func (c *crew) dropAll(space key.Space) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(c.hub.content(c.hub.revision))) {
		if strings.HasPrefix(k, string(space)+"/") {
			c.dropOne(k)
		}
	}
}

// tamper does something at the cluster.
func (c *crew) tamper(k string, b, how int) {
	c.cluster.mu.Lock()
	defer c.cluster.mu.Unlock()
	id := identityOf(k)
	o := c.cluster.objects[id.String()]
	switch {
	case o == nil || o.terminating || o.foreign:
	case id.Resource.Resource == "jobs" && how%3 > 0:
		if o.status == jobCompleted {
			c.tell("%s is cleaned up", id)
			c.cluster.set(id.String(), nil)
			return
		}
		c.tell("%s completes", id)
		n := o.copy()
		n.status = jobCompleted
		c.cluster.set(id.String(), n)
	case id.Namespace != "" && b%3 == 0:
		c.tell("delete %s at the cluster", id)
		c.cluster.remove(id.String())
	default:
		theirs := `"theirs"`
		c.tell("edit %s at the cluster", id)
		c.cluster.set(id.String(), o.edit("kubectl", map[string]*string{fieldPath("data", "v"): &theirs}))
	}
}

const jobCompleted = `{"conditions":[{"type":"Complete","status":"True"}]}`
