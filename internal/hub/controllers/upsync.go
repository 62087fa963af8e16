package controllers

import (
	"context"
	"strings"

	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// removeStep bounds the reports that one transaction removes, together with the record of the
// removal.
const removeStep = 99

// upsyncConfig contains the dependencies of the upsyncController.
type upsyncConfig struct {
	Table *table.Table
	Log   *etcd.Log
	// Upsynced counts the reports of upsynced and associated objects.
	Upsynced *upsync.Usage
}

// upsyncController removes the reports of upsynced and associated objects that no policy requests
// any more, whether or not the agent is connected. Its keys are locations.
type upsyncController struct{ config upsyncConfig }

func (c *upsyncController) watches() []watch {
	topics := prefixTopics(key.Objects.Prefix(), key.Reports.Prefix()) // Locations are among the objects
	return []watch{follow(c.config.Table, source{topics, below(key.ResourcePrefix(key.Root, key.Locations)), c.concerned})}
}

// concerned enqueues the locations whose reports a change may make unwanted.
func (c *upsyncController) concerned(ch table.Change) []string {
	if key.ClassOf(ch.Row().Key) == key.Reports {
		return c.byUnwanted(ch)
	}
	return append(c.byAssociated(ch), byUpsyncs(ch)...)
}

// byUpsyncs enqueues the location of a changed object, if it is a Location whose upsync entries have
// changed.
func byUpsyncs(ch table.Change) []string {
	s, r, name, _ := key.Split(ch.Row().Key)
	if s != key.Root || r != key.Locations {
		return nil
	}
	same := ch.Prev != nil && ch.Cur != nil && ch.Prev.CreateRev == ch.Cur.CreateRev && ch.Prev.Meta.Deleting == ch.Cur.Meta.Deleting
	if same && placement.UpsyncsOf(ch.Prev).Equal(placement.UpsyncsOf(ch.Cur)) {
		return nil
	}
	return []string{name}
}

// byAssociated enqueues the locations that report associated objects of an object whose placement
// has changed.
func (c *upsyncController) byAssociated(ch table.Change) (names []string) {
	if ch.Prev == nil || ch.Cur != nil && ch.Cur.In == ch.Prev.In {
		return nil
	}
	old, ok := ch.Prev.In.(*placement.Membership)
	if !ok || !old.Associates() {
		return nil
	}
	space, _, _, _ := key.Split(ch.Prev.Key)
	for _, l := range old.Members() {
		if c.config.Upsynced.Contains(l, space, key.Owned) {
			names = append(names, string(l))
		}
	}
	return names
}

// byUnwanted enqueues the location of a report that was not requested when it was written.
func (c *upsyncController) byUnwanted(ch table.Change) []string {
	if ch.Cur == nil || strings.Contains(ch.Cur.Key, "/"+string(key.Placed)+"/") { // cheaper than parsing the key
		return nil
	}
	r, err := key.ParseReport(ch.Cur.Key)
	if err != nil || r.Origin == key.Placed || upsync.Wanted(c.config.Table.Snapshot(), r, upsync.OwnerOf(ch.Cur.Value)) {
		return nil
	}
	return []string{string(r.Location)}
}

func (c *upsyncController) reconcile(ctx context.Context, name string) error {
	l := key.Location(name)
	snapshot := c.config.Table.Snapshot()
	rows, more := upsync.Unwanted(snapshot, c.config.Upsynced, l, removeStep)
	changes := make([]etcd.Change, 0, len(rows)+1)
	for _, row := range rows {
		changes = append(changes, etcd.Change{Op: etcd.Op{Key: row.Key}, Seen: row.ModRev}) // it may be requested again and rewritten
	}
	dropped := snapshot.Get(key.Dropped(l))
	if location := snapshot.Get(l.Key()); location != nil && (len(rows) > 0 || agentapi.Dropping(dropped)) {
		changes = append(changes, agentapi.Drop(l, location, dropped, more))
	}
	if len(changes) == 0 {
		return nil
	}
	rev, _, err := c.config.Log.WriteChanges(ctx, changes)
	if err != nil {
		return err
	}
	if err := c.config.Table.WaitFor(ctx, rev); err != nil {
		return err
	}
	if more {
		return errMore
	}
	return nil
}
