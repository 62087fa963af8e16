package placement

import (
	"fmt"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// maxReturning bounds how many locations are named.
const maxReturning = 10

// ReturnExplanation describes how the object's status returns.
type ReturnExplanation struct {
	Policy v1alpha1.ReturnStatus `json:"policy"`
	// Locations counts the locations whose status returns; From holds the first of them, in order.
	// With the policy Singleton, the status returns only if there is exactly one.
	Locations int            `json:"locations"`
	From      []key.Location `json:"from,omitempty"`
	// WrittenHere reports whether the status does not return because a client in the space writes
	// it.
	WrittenHere bool `json:"writtenHere,omitempty"`
}

// explainReturn returns nil for objects without a status that could return.
func (m *Membership) explainReturn(o key.Object, row *table.Row) *ReturnExplanation {
	if DefaultReturn(o.Resource) == v1alpha1.ReturnStatusNone {
		return nil
	}
	way, from := m.Returns()
	r := &ReturnExplanation{Policy: way}
	if way == v1alpha1.ReturnStatusNone {
		r.WrittenHere = WrittenHere(row)
		return r
	}
	r.Locations, r.From = len(from), from[:min(len(from), maxReturning)]
	return r
}

// String describes the return of the status.
func (r *ReturnExplanation) String() string {
	names := make([]string, 0, len(r.From)+1)
	for _, l := range r.From {
		names = append(names, string(l))
	}
	if more := r.Locations - len(r.From); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	from := strings.Join(names, ", ")
	switch {
	case r.WrittenHere:
		return "its status does not come back: a client in the space writes it"
	case r.Policy == v1alpha1.ReturnStatusNone:
		return "its status does not come back (None)"
	case r.Locations == 0:
		return fmt.Sprintf("its status comes back from no location (%s)", r.Policy)
	case r.Policy == v1alpha1.ReturnStatusSingleton && r.Locations > 1:
		return "its status does not come back, since it would be that of several locations (Singleton): " + from
	default:
		return fmt.Sprintf("its status comes back from %s (%s)", from, r.Policy)
	}
}
