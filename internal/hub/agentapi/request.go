package agentapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxVersion limits the stored bytes of the protocol version that an agent names.
const maxVersion = 1024

// agentRequest has the properties of an agent's request. They are resolved once, when the request
// arrives. The location had this UID then, and may have been removed since.
type agentRequest struct {
	location key.Location
	uid      string
	// shard is the shard of the agent, which its credential is for.
	shard key.Shard
	// can has the abilities of the agent.
	can abilities
}

// session returns the session of the agent.
func (q agentRequest) session() key.Session {
	return key.Session{Location: q.location, Shard: q.shard}
}

// resolver resolves requests of agents. It publishes the requests of agents that the hub does not
// serve, within the limits of their location.
type resolver struct {
	locations *locations
	sessions  *Sessions
	limits    *agentLimits
	// number, if set, returns the number of the shard of the agent that sent a request.
	number func(context.Context) int
}

// resolve returns the properties of a request of a location's agent. It fails unless the location
// exists and has the shard that the request names, and the agent's credential is for that shard.
func (d *resolver) resolve(r *http.Request, l key.Location) (agentRequest, error) {
	row, err := d.locations.find(l)
	if err != nil {
		return agentRequest{}, err
	}
	shard, err := d.shardOf(r)
	if err != nil {
		return agentRequest{}, err
	}
	if count := presence.ShardsOf(row); count != shard.Total() {
		// The status of the agent with this number shows it, which may cause a write.
		flow := fmt.Sprintf("location %s strange", l)
		if d.limits.statuses.Begin(flow) == nil {
			d.limits.statuses.Count(flow, 1)
			d.sessions.estrange(key.Session{Location: l, Shard: key.NewShard(min(count, shard.Number()), count)}, shard)
		}
		return agentRequest{}, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReason(v1alpha1.ReasonOtherShards),
			Message: fmt.Sprintf("the agent is for shard %s, and the location's spec.shards is %d", shard, count),
		}}
	}
	return agentRequest{location: l, uid: row.Meta.UID, shard: shard, can: abilitiesOf(r)}, nil
}

// shardOf returns the shard that a request names. It fails unless the agent's credential is for that
// shard.
func (d *resolver) shardOf(r *http.Request) (key.Shard, error) {
	var shard key.Shard
	if requested := r.URL.Query().Get(wire.ShardParam); requested != "" {
		var err error
		if shard, err = key.ParseShard(requested); err != nil {
			return shard, apierrors.NewBadRequest(err.Error())
		}
	}
	if mine := d.numberOf(r); d.number != nil && mine != shard.Number() {
		return shard, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: fmt.Sprintf("the agent's credential is of shard %d, and it asks for %s: join with a token of its own shard", mine, shard),
		}}
	}
	return shard, nil
}

// numberOf returns the number of the shard of the agent that sent a request.
func (d *resolver) numberOf(r *http.Request) int {
	if d.number == nil {
		return 1
	}
	return d.number(r.Context())
}

// refuse publishes that an agent of an existing location was refused for its protocol version, within
// the limits of sessions.
func (d *resolver) refuse(r *http.Request, l key.Location, version string) {
	row, err := d.locations.find(l)
	if err != nil {
		return
	}
	n := presence.ShardsOf(row)
	id := key.Session{Location: l, Shard: key.NewShard(min(n, d.numberOf(r)), n)}
	if d.limits.beginSession(id) == nil {
		d.sessions.refuse(id, wire.Clip(cmp.Or(version, "unknown"), maxVersion))
	}
}
