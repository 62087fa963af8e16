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

// StatusManager is the field manager of statuses that came back. Its entry in managedFields
// tells them from statuses that were written in the space.
const StatusManager = "orrery-status"

// returns is what a source says of an object's status at its locations. Of what several
// say, the greatest counts.
type returns uint8

const (
	// returnsNothing is of what follows: the Placement says nothing, and has no status
	// returned that nobody asks for.
	returnsNothing returns = iota
	// returnsDefault is of a source that says nothing.
	returnsDefault
	returnsNone
	returnsSingleton
	returnsRollup
)

// returnsOf reads what the API says; what is unknown is as if it were not said.
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

// returning is how the status of an object comes back: way is what is done, said is the
// greatest of what the sources say. They differ where nothing is said.
type returning struct{ way, said returns }

// returnOf says how the status of an object comes back by its sources. What any of them says
// counts more than what is done where none says anything: nothing, for instance, of objects
// that are bound, since their status is the provider's to write.
func returnOf(s subject, provided bool, sources []Source) (r returning) {
	for _, source := range sources {
		for _, p := range source.parts {
			r.said = max(r.said, p.returns)
		}
	}
	unsaid := returnsOf(DefaultReturn(s.Resource))
	if r.way = r.said; r.said == returnsDefault {
		if r.way = unsaid; unsaid > returnsNone && (provided || WrittenHere(s.row)) {
			r.way = returnsNone
		}
	}
	if r.way <= returnsNone || unsaid == returnsNone {
		return returning{}
	}
	return r
}

// sets are the locations whose statuses come back. A source that says nothing goes along
// with a Rollup, which is about all locations but those of which somebody says None; a
// Singleton is about the locations for which it is asked.
func (r returning) sets(sources []Source) (all []*locationSet) {
	if r.way == returnsNothing {
		return nil
	}
	for _, source := range sources {
		for _, p := range source.parts {
			if p.returns == r.said || r.said == returnsRollup && (p.returns == returnsSingleton || p.returns == returnsDefault) {
				all = append(all, p.locations)
			}
		}
	}
	return all
}

// policy is the way as the API names it.
func (r returning) policy() v1alpha1.ReturnStatus {
	switch r.way {
	case returnsSingleton:
		return v1alpha1.ReturnStatusSingleton
	case returnsRollup:
		return v1alpha1.ReturnStatusRollup
	}
	return v1alpha1.ReturnStatusNone
}

// Returns says how the object's status comes back, and from which locations, in order. The
// caller must not change them. A Singleton comes back while they are exactly one.
func (m *Membership) Returns() (way v1alpha1.ReturnStatus, from []key.Location) {
	return m.returning.policy(), m.statuses
}

// Asking are the Placements, as they are named in the object's space and in order, by which
// its status comes back.
func (m *Membership) Asking() (names []key.PlacementRef) {
	for _, s := range m.sources {
		if s.Placement != "" && len(m.returning.sets([]Source{s})) > 0 {
			names = append(names, s.Placement)
		}
	}
	return names
}

// returnsFrom says whether the status at a location comes back.
func (m *Membership) returnsFrom(location key.Location) bool {
	_, ok := slices.BinarySearch(m.statuses, location)
	return ok
}

// DefaultReturn is what is done about the status of a resource's objects where nothing is
// said. Where that is None there is no status that could come back.
func DefaultReturn(r key.Resource) v1alpha1.ReturnStatus {
	switch {
	case Never(r) != "" || r == key.Namespaces || r == key.CRDs: // what their status says is of the space
		return v1alpha1.ReturnStatusNone
	case rollup.Has(r) || !r.Builtin():
		return v1alpha1.ReturnStatusRollup
	case single(r):
		return v1alpha1.ReturnStatusSingleton
	}
	return v1alpha1.ReturnStatusNone
}

// single says whether a built-in resource without a rollup has a status.
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

// WrittenHere says whether somebody in the space writes the status of a row's object.
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
