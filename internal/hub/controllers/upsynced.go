package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/agentapi"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/engine/upsync"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// removeStep bounds the reports that one transaction removes, together with the record of the
// removal.
const removeStep = 99

// upsyncReports removes the reports of upsynced and associated objects that no policy requests any
// more, whether or not the agent is connected.
func (c *Controllers) upsyncReports() *controller {
	topics := prefixTopics(key.Objects.Prefix(), key.Reports.Prefix()) // Locations are among the objects
	return c.controller("born", c.reconcileUpsyncReports,
		c.follow(source{topics, below(key.ResourcePrefix(key.Root, key.Locations)), func(ch table.Change) []string {
			if key.ClassOf(ch.Row().Key) == key.Reports {
				return c.byUnwanted(ch)
			}
			return append(c.byAssociated(ch), byUpsyncs(ch)...)
		}}))
}

// byUpsyncs enqueues the location of a changed object, if it is a Location whose upsync entries have
// changed.
func byUpsyncs(ch table.Change) []string {
	if s, r, _, _ := key.Split(ch.Row().Key); s != key.Root || r != key.Locations {
		return nil
	}
	same := ch.Prev != nil && ch.Cur != nil && ch.Prev.CreateRev == ch.Cur.CreateRev && ch.Prev.Meta.Deleting == ch.Cur.Meta.Deleting
	if same && placement.UpsyncsOf(ch.Prev).Equal(placement.UpsyncsOf(ch.Cur)) {
		return nil
	}
	return byLocation(ch)
}

// byAssociated enqueues the locations that report associated objects of an object whose placement
// has changed.
func (c *Controllers) byAssociated(ch table.Change) (names []string) {
	if ch.Prev == nil || ch.Cur != nil && ch.Cur.In == ch.Prev.In {
		return nil
	}
	old, ok := ch.Prev.In.(*placement.Membership)
	if !ok || !old.Associates() {
		return nil
	}
	space, _, _, _ := key.Split(ch.Prev.Key)
	for _, l := range old.Members() {
		if c.config.Upsynced.Has(l, space, key.Owned) {
			names = append(names, string(l))
		}
	}
	return names
}

// byUnwanted enqueues the location of a report that was not requested when it was written.
func (c *Controllers) byUnwanted(ch table.Change) []string {
	if ch.Cur == nil || strings.Contains(ch.Cur.Key, "/"+string(key.Placed)+"/") { // cheaper than parsing the key
		return nil
	}
	r, err := key.ParseReport(ch.Cur.Key)
	if err != nil || r.Origin == key.Placed || upsync.Wanted(c.config.Table.Snapshot(), r, upsync.OwnerOf(ch.Cur.Value)) {
		return nil
	}
	return []string{string(r.Location)}
}

func (c *Controllers) reconcileUpsyncReports(ctx context.Context, name string) error {
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

// upsynced sets the condition Upsynced of a Location with upsync entries.
func (c *Controllers) upsynced(all *[]metav1.Condition, row *table.Row, spec *v1alpha1.LocationSpec, seen sighting) {
	upsyncs := placement.UpsyncsOf(row)
	if len(upsyncs) == 0 {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
		return
	}
	if seen.session == nil { // the earlier condition stays
		return
	}
	var reported wire.SeesStatus
	exceeds := 0
	if seen.reported != nil {
		exceeds = seen.reported.Exceeds
		if st := seen.reported.Status; st != nil && st.Sees != nil {
			reported = *st.Sees
		}
	}
	most := upsync.Limits(spec)
	_, dropped := upsyncs.Entries()
	is := metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionFalse}
	switch {
	case seen.session.Blind:
		is.Reason, is.Message = v1alpha1.ReasonAgentTooOld, "the agent does not support upsync: upgrade it"
	case dropped:
		is.Reason, is.Message = v1alpha1.ReasonLimitExceeded, "the upsync entries of spaces exceed the limit of an agent: some objects are not reported"
	case reported.LeftOut > 0 || exceeds > 0:
		is.Reason = v1alpha1.ReasonLimitExceeded
		is.Message = fmt.Sprintf("%d objects do not come back: the location's limits are %d objects and %d bytes", max(reported.LeftOut, exceeds), most.Objects, most.Bytes)
	case len(reported.Unread) > 0:
		is.Reason, is.Message = v1alpha1.ReasonUnread, "kinds that the agent can't read: "+unreadText(reported.Unread)
	default:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, v1alpha1.ReasonAsked, "all requested objects are reported"
	}
	c.condition(all, row, is)
}

// unreadText names the first kinds that an agent cannot read, with the reasons.
func unreadText(all []wire.UnreadKind) string {
	var some []string
	for _, k := range all[:min(maxShown, len(all))] {
		some = append(some, fmt.Sprintf("%s of %s (%s)", k.Resource, k.Group, k.Message))
	}
	return clip(strings.Join(some, "; "))
}

// unasked returns the condition Upsynced of a Placement: whether all its locations report objects
// for its upsync.
func unasked(all *[]metav1.Condition, s key.Space, status placement.Status) (is metav1.Condition, ok bool) {
	if !status.HasUpsync {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
		return is, false
	}
	is = metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsked, Message: "all locations are asked"}
	if status.Unaskeds == 0 {
		return is, true
	}
	var some []string
	for _, u := range status.Unasked {
		some = append(some, u.In(s))
	}
	if n := status.Unaskeds - len(status.Unasked); n > 0 {
		some = append(some, fmt.Sprintf("and %d more", n))
	}
	is.Status, is.Reason, is.Message = metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, strings.Join(some, "; ")
	if !slices.ContainsFunc(status.Unasked, func(u placement.Unasked) bool { return u.Reason != v1alpha1.ReasonImpersonated }) {
		is.Reason = v1alpha1.ReasonImpersonated
	}
	return is, true
}
