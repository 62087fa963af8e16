package agentapi

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/presence"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// shardOf returns the shard that a request of a location's agent names. It fails unless the agent's
// credential is for that shard, and the location has it.
func (a *Server) shardOf(r *http.Request, l key.Location) (key.Shard, error) {
	var shard key.Shard
	if requested := r.URL.Query().Get(wire.ShardParam); requested != "" {
		var err error
		if shard, err = key.ParseShard(requested); err != nil {
			return shard, apierrors.NewBadRequest(err.Error())
		}
	}
	if mine := a.numberOf(r); a.config.Shard != nil && mine != shard.Number() {
		return shard, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: fmt.Sprintf("the agent's credential is of shard %d, and it asks for %s: join with a token of its own shard", mine, shard),
		}}
	}
	row, err := a.find(l)
	if err != nil {
		return shard, err
	}
	if count := presence.ShardsOf(row); count != shard.Total() {
		// The status of the agent with this number shows it, which may cause a write.
		flow := fmt.Sprintf("location %s strange", l)
		if a.reported.statuses.Begin(flow) == nil {
			a.reported.statuses.Count(flow, 1)
			a.sessions.estrange(key.Session{Location: l, Shard: key.NewShard(min(count, shard.Number()), count)}, shard)
		}
		return shard, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReason(v1alpha1.ReasonOtherShards),
			Message: fmt.Sprintf("the agent is for shard %s, and the location's spec.shards is %d", shard, count),
		}}
	}
	return shard, nil
}

// sessionOf returns the session of the agent that sent a request.
func (a *Server) sessionOf(r *http.Request, l key.Location) key.Session {
	row, _ := a.config.Table.Get(l.Key())
	n := presence.ShardsOf(row)
	return key.Session{Location: l, Shard: key.NewShard(min(n, a.numberOf(r)), n)}
}

// sessionFor returns the session of the agent for a space at a location.
func (a *Server) sessionFor(l key.Location, space key.Space) key.Session {
	row, _ := a.config.Table.Get(l.Key())
	n := presence.ShardsOf(row)
	return key.Session{Location: l, Shard: key.NewShard(key.ShardOf(space, n), n)}
}

// keepsShards requires that the number of shards of a location does not change.
func keepsShards(l key.Location, n int) table.Condition {
	return table.Condition{Key: l.Key(), End: errContentChanged, IsMet: func(row *table.Row) bool { return row == nil || presence.ShardsOf(row) == n }}
}
