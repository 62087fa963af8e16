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

// bornStep is how many reports are removed at once that are no longer wanted: in one
// transaction, with what says so.
const bornStep = 99

// born removes the reports of what was not placed that nobody wants any more, whether or not
// the agent is there to say so.
func (c *Controllers) born() *controller {
	none := func(*table.Snapshot, func(*table.Row) bool) {}
	locations := key.ResourcePrefix(key.Root, key.Locations)
	return c.controller("born", c.reconcileBorn,
		c.follow(source{table.PrefixTopic(locations), below(locations), byAsked}),
		c.follow(source{table.PrefixTopic(key.Objects.Prefix()), none, c.byAssociated}),
		c.follow(source{table.PrefixTopic(key.Reports.Prefix()), none, c.byUnwanted}))
}

// byAsked names a Location of which something else is asked than before.
func byAsked(ch table.Change) []string {
	same := ch.Prev != nil && ch.Cur != nil && ch.Prev.CreateRev == ch.Cur.CreateRev && ch.Prev.Meta.Deleting == ch.Cur.Meta.Deleting
	if same && placement.UpsyncsOf(ch.Prev).Equal(placement.UpsyncsOf(ch.Cur)) {
		return nil
	}
	return byLocation(ch)
}

// byAssociated names the locations of an object that has owned there what came back, and that
// is placed otherwise than before.
func (c *Controllers) byAssociated(ch table.Change) (names []string) {
	if ch.Prev == nil || ch.Cur != nil && ch.Cur.In == ch.Prev.In {
		return nil
	}
	was, ok := ch.Prev.In.(*placement.Membership)
	if !ok || !was.Associates() {
		return nil
	}
	space, _, _, _ := key.Split(ch.Prev.Key)
	for _, l := range was.Members() {
		if c.config.Born.Has(l, space, key.Owned) {
			names = append(names, string(l))
		}
	}
	return names
}

// byUnwanted names the location of a report that was written when it was no longer wanted.
func (c *Controllers) byUnwanted(ch table.Change) []string {
	if ch.Cur == nil || strings.Contains(ch.Cur.Key, "/"+string(key.Placed)+"/") { // which costs less than taking the key apart
		return nil
	}
	r, err := key.ParseReport(ch.Cur.Key)
	if err != nil || r.Origin == key.Placed || upsync.Wanted(c.config.Table.Snapshot(), r, upsync.OwnerOf(ch.Cur.Value)) {
		return nil
	}
	return []string{string(r.Location)}
}

func (c *Controllers) reconcileBorn(ctx context.Context, name string) error {
	l := key.Location(name)
	snapshot := c.config.Table.Snapshot()
	rows, more := upsync.Unwanted(snapshot, c.config.Born, l, bornStep)
	changes := make([]etcd.Change, 0, len(rows)+1)
	for _, row := range rows {
		changes = append(changes, etcd.Change{Op: etcd.Op{Key: row.Key}, Seen: row.ModRev}) // it may be wanted again, and written anew
	}
	dropped := snapshot.Get(key.Dropped(l))
	if at := snapshot.Get(l.Key()); at != nil && (len(rows) > 0 || agentapi.Dropping(dropped)) {
		changes = append(changes, agentapi.Drop(l, at, dropped, more))
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

// upsynced sets the condition Upsynced of a Location of which something is asked.
func (c *Controllers) upsynced(all *[]metav1.Condition, row *table.Row, spec *v1alpha1.LocationSpec, seen sighting) {
	asked := placement.UpsyncsOf(row)
	if len(asked) == 0 {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
		return
	}
	if seen.session == nil { // what was known of the one before stays
		return
	}
	var said wire.SeesStatus
	exceeds := 0
	if seen.said != nil {
		exceeds = seen.said.Exceeds
		if st := seen.said.Status; st != nil && st.Sees != nil {
			said = *st.Sees
		}
	}
	most := upsync.Limits(spec)
	_, dropped := asked.Entries()
	is := metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionFalse}
	switch {
	case seen.session.Blind:
		is.Reason, is.Message = v1alpha1.ReasonAgentTooOld, "the agent does not report what is born at the location: upgrade it"
	case dropped:
		is.Reason, is.Message = v1alpha1.ReasonLimitExceeded, "spaces ask for more than an agent can be told: not all that they ask for comes back"
	case said.LeftOut > 0 || exceeds > 0:
		is.Reason = v1alpha1.ReasonLimitExceeded
		is.Message = fmt.Sprintf("%d objects do not come back: the location's limits are %d objects and %d bytes", max(said.LeftOut, exceeds), most.Objects, most.Bytes)
	case len(said.Unread) > 0:
		is.Reason, is.Message = v1alpha1.ReasonUnread, "kinds that the agent can't read: "+unreadText(said.Unread)
	default:
		is.Status, is.Reason, is.Message = metav1.ConditionTrue, v1alpha1.ReasonAsked, "what is asked for comes back"
	}
	c.condition(all, row, is)
}

// unreadText names the first kinds that an agent can't read, and why.
func unreadText(all []wire.UnreadKind) string {
	var some []string
	for _, k := range all[:min(maxShown, len(all))] {
		some = append(some, fmt.Sprintf("%s of %s (%s)", k.Resource, k.Group, k.Message))
	}
	return clip(strings.Join(some, "; "))
}

// unasked is the condition Upsynced of a Placement: whether all its locations are asked.
func unasked(all *[]metav1.Condition, s key.Space, of placement.Status) (is metav1.Condition, ok bool) {
	if !of.HasUpsync {
		meta.RemoveStatusCondition(all, v1alpha1.ConditionUpsynced)
		return is, false
	}
	is = metav1.Condition{Type: v1alpha1.ConditionUpsynced, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAsked, Message: "all locations are asked"}
	if of.Unaskeds == 0 {
		return is, true
	}
	var some []string
	for _, u := range of.Unasked {
		some = append(some, u.In(s))
	}
	if n := of.Unaskeds - len(of.Unasked); n > 0 {
		some = append(some, fmt.Sprintf("and %d more", n))
	}
	is.Status, is.Reason, is.Message = metav1.ConditionFalse, v1alpha1.ReasonNotAdmitted, strings.Join(some, "; ")
	if !slices.ContainsFunc(of.Unasked, func(u placement.Unasked) bool { return u.Reason != v1alpha1.ReasonImpersonated }) {
		is.Reason = v1alpha1.ReasonImpersonated
	}
	return is, true
}
