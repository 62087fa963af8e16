package controllers

import (
	"regexp"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

const (
	// maxShown and maxText bound the lists and texts of an agent in the location's status.
	maxShown = 10
	maxText  = 1024
	// maxPruned bounds the Placements with pending removals. Agents send about half as many.
	maxPruned = 200
	// maxName bounds the name of an object.
	maxName = 253
)

// isDigest matches the digest of pending removals. The digest is shown as part of a command.
var isDigest = regexp.MustCompile(`^[0-9A-Za-z]{1,64}$`)

// areDigests matches the digest of a location's pending removals: the digests of its agents,
// joined.
var areDigests = regexp.MustCompile(`^[0-9A-Za-z]{1,64}(-[0-9A-Za-z]{1,64})*$`)

// agentStatus converts an agent's status for the location's status. reportsFrom reports whether the
// location reports objects of a space.
func agentStatus(s *wire.AgentStatus, reportsFrom func(key.Space) bool) *v1alpha1.AgentStatus {
	a := &v1alpha1.AgentStatus{
		Version: clip(s.Version), Hub: clip(s.Hub), Trusts: first(s.Trusts), KubernetesVersion: clip(s.KubernetesVersion), StoreEncrypted: s.StoreEncrypted, APIsDigest: clip(s.APIsDigest),
		Halted: clip(s.Halted), StoreError: clip(s.StoreError), LogIdentity: clip(string(s.LogIdentity)), Awaits: clip(s.Awaits), Deferred: int64(s.Deferred),
	}
	a.Prune = pendingPrune(s.Prune, reportsFrom)
	if p := s.Purge; p != nil {
		a.Purge = &v1alpha1.PurgeProgress{Left: int64(p.Left), Kept: int64(p.Kept), Objects: named(p.Objects)}
	}
	return a
}

// pendingPrune converts the pending removals of a location. It drops spaces of which the location
// has no objects.
func pendingPrune(p *wire.PruneStatus, reportsFrom func(key.Space) bool) *v1alpha1.PendingPrune {
	if p == nil {
		return nil
	}
	known := map[string]bool{}
	isKnown := func(name string) bool { // an agent may send an invalid name
		if _, checked := known[name]; !checked {
			known[name] = key.ValidateName(name) == nil && reportsFrom(key.Space(name))
		}
		return known[name]
	}
	out := &v1alpha1.PendingPrune{Pending: int64(max(0, p.Pending)), Objects: named(p.Objects)}
	if len(p.Digest) <= maxText && areDigests.MatchString(p.Digest) {
		out.Digest = p.Digest
	}
	for _, one := range p.Spaces[:min(maxShown, len(p.Spaces))] {
		if !isKnown(one.Space) || !isDigest.MatchString(one.Digest) {
			continue
		}
		out.Spaces = append(out.Spaces, v1alpha1.SpacePrune{
			Space: one.Space, Pending: int64(max(0, one.Pending)), Digest: one.Digest,
		})
	}
	for _, one := range p.Placements[:min(maxPruned, len(p.Placements))] {
		placement := key.PlacementRef(one.Placement).Resolve(key.Space(one.Space))
		if !isKnown(one.Space) || len(placement.Name) > maxName || clip(one.Placement) != one.Placement || !isDigest.MatchString(one.Digest) {
			continue // no proper agent sends this
		}
		out.Placements = append(out.Placements, v1alpha1.PlacementPrune{
			Space: one.Space, Placement: one.Placement, Pending: int64(max(0, one.Pending)), Digest: one.Digest,
		})
	}
	return out
}

func first(all []string) []string {
	var some []string
	for _, s := range all[:min(maxShown, len(all))] {
		some = append(some, clip(s))
	}
	return some
}

// named returns the first of an agent's objects, as SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME. All
// users that may read Locations in root see them, so the names of confidential objects are omitted.
func named(all []string) []string {
	some := first(all)
	for i, path := range some {
		if o, err := key.ParsePath(path); err == nil && o.Concealed() {
			some[i] = string(o.Space) + "/" + o.Resource.String()
		}
	}
	return some
}

func clip(s string) string { return wire.Clip(s, maxText) }
