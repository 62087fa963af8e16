package placement

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/rollup"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// StatusManager is the field manager of returned statuses. Its entry in managedFields distinguishes
// them from statuses that clients write in the space.
const StatusManager = "orrery-status"

// returns is the return policy of a source for the status of an object. Of several policies, the
// greatest applies.
type returns uint8

const (
	// returnsNothing is the policy for objects that follow others. It requests no status.
	returnsNothing returns = iota
	// returnsDefault is the policy of a source that sets none.
	returnsDefault
	returnsNone
	returnsSingleton
	returnsRollup
)

// returnsOf converts a policy of the API. An unknown value is the default.
func returnsOf(policy v1alpha1.ReturnStatus) returns {
	switch policy {
	case v1alpha1.ReturnStatusNone:
		return returnsNone
	case v1alpha1.ReturnStatusSingleton:
		return returnsSingleton
	case v1alpha1.ReturnStatusRollup:
		return returnsRollup
	}
	return returnsDefault
}

// returning is the return policy of an object: requested is the greatest policy of its sources, and
// effective is the policy in use. They differ where no source sets one.
type returning struct{ effective, requested returns }

// returnOf computes the return policy of an object. A policy of a source takes precedence over the
// default. The default for a bound object is to return nothing, since the provider writes its
// status.
func returnOf(s subject, provided bool, sources []Source) (r returning) {
	for _, source := range sources {
		for _, p := range source.policies {
			r.requested = max(r.requested, p.returns)
		}
	}
	byDefault := returnsOf(DefaultReturn(s.Resource))
	if r.effective = r.requested; r.requested == returnsDefault {
		if r.effective = byDefault; byDefault > returnsNone && (provided || WrittenHere(s.row)) {
			r.effective = returnsNone
		}
	}
	if r.effective <= returnsNone || byDefault == returnsNone {
		return returning{}
	}
	return r
}

// sets returns the locations whose status returns. With Rollup, these are also the locations of
// sources that set no policy or Singleton, but not those of sources with None. With Singleton,
// these are the locations of sources that set it.
func (r returning) sets(sources []Source) (all []*locationSet) {
	if r.effective == returnsNothing {
		return nil
	}
	for _, source := range sources {
		for _, p := range source.policies {
			if p.returns == r.requested || r.requested == returnsRollup && (p.returns == returnsSingleton || p.returns == returnsDefault) {
				all = append(all, p.locations)
			}
		}
	}
	return all
}

// policy returns the effective policy in the terms of the API.
func (r returning) policy() v1alpha1.ReturnStatus {
	switch r.effective {
	case returnsSingleton:
		return v1alpha1.ReturnStatusSingleton
	case returnsRollup:
		return v1alpha1.ReturnStatusRollup
	}
	return v1alpha1.ReturnStatusNone
}

// Returns returns the return policy and the locations whose status returns, in order. The caller
// must not change the slice. With Singleton, the status returns only if there is exactly one
// location.
func (m *Membership) Returns() (effective v1alpha1.ReturnStatus, from []key.Location) {
	return m.returning.policy(), m.statuses
}

// Asking returns the Placements, as they are named in the object's space and in order, by which its
// status returns.
func (m *Membership) Asking() (names []key.PlacementRef) {
	for _, s := range m.sources {
		if s.Placement != "" && len(m.returning.sets([]Source{s})) > 0 {
			names = append(names, s.Placement)
		}
	}
	return names
}

// returnsFrom reports whether the status at a location returns.
func (m *Membership) returnsFrom(location key.Location) bool {
	_, ok := slices.BinarySearch(m.statuses, location)
	return ok
}

// DefaultReturn returns the policy for the status of a resource's objects if no source sets one.
// None means that the resource has no status that could return.
func DefaultReturn(r key.Resource) v1alpha1.ReturnStatus {
	switch {
	case Never(r) != "" || r == key.Namespaces || r == key.CRDs: // their status describes the space
		return v1alpha1.ReturnStatusNone
	case rollup.HasRollup(r) || !r.Builtin():
		return v1alpha1.ReturnStatusRollup
	case single(r):
		return v1alpha1.ReturnStatusSingleton
	}
	return v1alpha1.ReturnStatusNone
}

// single reports whether a built-in resource without a rollup has a status.
func single(r key.Resource) bool {
	var all []string
	switch r.APIGroup() {
	case "":
		all = []string{"nodes", "persistentvolumes", "replicationcontrollers", "resourcequotas"}
	case "admissionregistration.k8s.io":
		all = []string{"validatingadmissionpolicies"}
	case "apiregistration.k8s.io":
		all = []string{"apiservices"}
	case "certificates.k8s.io":
		all = []string{"certificatesigningrequests"}
	case "flowcontrol.apiserver.k8s.io":
		all = []string{"flowschemas", "prioritylevelconfigurations"}
	case "networking.k8s.io":
		all = []string{"servicecidrs"}
	case "resource.k8s.io":
		all = []string{"resourceclaims"}
	case "storage.k8s.io":
		all = []string{"volumeattachments"}
	}
	return slices.Contains(all, r.Resource)
}

// WrittenHere reports whether a client in the space writes the status of a row's object.
func WrittenHere(row *table.Row) bool {
	if !bytes.Contains(row.Value, []byte(`"f:status"`)) {
		return false
	}
	written := false
	gjson.GetBytes(row.Value, "metadata.managedFields").ForEach(func(_, entry gjson.Result) bool {
		written = entry.Get("manager").Str != StatusManager && entry.Get(`fieldsV1.f:status`).Exists()
		return !written
	})
	return written
}
