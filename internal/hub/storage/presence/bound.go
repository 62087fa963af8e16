package presence

import (
	"encoding/json"

	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxShown, maxText and maxName limit the stored lists, strings and names of an agent, and
	// maxPruned the Placements with pending removals; agents send about half as many. maxStatus
	// limits the total size in bytes of an agent's status.
	maxShown  = 10
	maxText   = 1024
	maxName   = 512
	maxPruned = 200
	maxStatus = 256 << 10
)

// bounded returns the stored part of an agent's status: at most what the status of a Location
// contains. The list of APIs is not stored. The result shares no list or string with the received
// status.
func bounded(s wire.AgentStatus) *wire.AgentStatus {
	s.APIs = nil
	clip(maxText, &s.Version, &s.Hub, &s.KubernetesVersion, &s.APIsDigest, &s.Halted, &s.StoreError, &s.Awaits)
	s.LogIdentity, s.Trusts = wire.LogIdentity(wire.Clip(string(s.LogIdentity), maxText)), first(s.Trusts)
	if s.Cluster != nil {
		c := *s.Cluster
		c.State = wire.ClusterState(wire.Clip(string(c.State), maxName))
		clip(maxName, &c.Since)
		clip(maxText, &c.Message)
		s.Cluster = &c
	}
	if s.Prune != nil {
		p := *s.Prune
		clip(maxName, &p.Digest)
		p.Objects, p.Spaces, p.Placements = first(p.Objects), head(p.Spaces, maxShown), head(p.Placements, maxPruned)
		for i := range p.Spaces {
			clip(maxName, &p.Spaces[i].Space, &p.Spaces[i].Digest)
		}
		for i := range p.Placements {
			clip(maxName, &p.Placements[i].Space, &p.Placements[i].Placement, &p.Placements[i].Digest)
		}
		s.Prune = &p
	}
	if s.Purge != nil {
		p := *s.Purge
		p.Objects = first(p.Objects)
		s.Purge = &p
	}
	if s.Upsync != nil {
		p := *s.Upsync
		p.Unread = head(p.Unread, wire.MaxUnread)
		for i := range p.Unread {
			clip(maxName, &p.Unread[i].Group, &p.Unread[i].Resource)
			clip(maxText, &p.Unread[i].Message)
		}
		s.Upsync = &p
	}
	return &s
}

// encode returns the stored form of an AgentStatus. If it is too large, it omits the lists of removals,
// which are never so large for a correct agent, and then the status; cut reports that.
func encode(stored AgentStatus) (value []byte, cut bool, err error) {
	value, err = json.Marshal(stored)
	if err == nil && len(value) > maxStatus && stored.Status != nil && stored.Status.Prune != nil {
		status, prune := *stored.Status, *stored.Status.Prune
		prune.Placements, prune.Spaces, prune.Objects = nil, nil, nil
		status.Prune, stored.Status = &prune, &status
		value, err = json.Marshal(stored)
	}
	if err == nil && len(value) > maxStatus {
		stored.Status, cut = nil, true
		value, err = json.Marshal(stored)
	}
	return value, cut, err
}

func clip(limit int, texts ...*string) {
	for _, text := range texts {
		*text = wire.Clip(*text, limit)
	}
}

func first(all []string) []string {
	some := head(all, maxShown)
	for i := range some {
		clip(maxText, &some[i])
	}
	return some
}

// head returns a copy of the first n elements of a list, or of all; nil if it is empty.
func head[T any](all []T, n int) []T {
	return append([]T(nil), all[:min(n, len(all))]...)
}
