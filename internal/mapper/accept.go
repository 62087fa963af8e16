package mapper

import (
	"context"
	"errors"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/wire"
)

// errAccepted ends a session in which the operator has accepted the hub's log.
var errAccepted = errors.New("the hub's log was accepted as the continuation of the one before: connect again")

// accepts says whether the operator has accepted the log whose hello this is.
func accepts(s wire.Settings, h wire.Hello) bool { return s.Accept != "" && s.Accept == h.Marker }

// accept takes the hub's log for the continuation of the one before: from now
// on its marker proves it. Our content is not the hub's yet; the next session
// finds that out by the root, and compares. A location that was made again
// under its name is followed, too.
func (st *stream) accept(ctx context.Context, h wire.Hello) error {
	st.log.Warn("the hub's log was accepted as the continuation of the one before", "marker", h.Marker, "revision", h.Revision)
	if err := st.store.write(ctx, func(t *tx) error {
		t.meta.LocationUID, t.meta.Marker, t.meta.Revision = h.UID, h.Marker, h.Revision
		t.meta.Seen = pair{}
		t.meta.Accepted, t.meta.Epoch = newPair(h.Marker, h.Revision), t.meta.Epoch+1
		t.meta.ReportsAgreed = false
		return nil
	}); err != nil {
		return err
	}
	st.accepted()
	return errAccepted
}

// former says whether a field manager is that of a location that had this
// one's name before it.
func (l identity) former(manager string) bool {
	name, _, _ := strings.Cut(string(l), ".")
	return manager != l.manager() && strings.HasPrefix(manager, managerPrefix+name+".")
}

// takeOver makes the fields of an object, which is recorded as ours, this
// location's that were those of one of its name before: else what is no longer
// desired of them would stay. What that one wrote otherwise than by applies are
// marks, which the next apply owns.
func (r *reconciler) takeOver(ctx context.Context, t *turn, m objectMeta) (objectMeta, error) {
	mine := slices.ContainsFunc(m.ManagedFields, func(f managedFields) bool { return f.appliedBy(t.view.as.manager()) })
	var fields []managedFields
	moved := false
	for _, f := range m.ManagedFields {
		if t.view.as.former(f.Manager) {
			moved = true
			if mine || !f.appliedBy(f.Manager) {
				continue
			}
			f.Manager, mine = t.view.as.manager(), true
		}
		fields = append(fields, f)
	}
	if !moved {
		return m, nil
	}
	return r.target.setManagedFields(ctx, t.view.at, t.id, t.view.as, m, fields)
}
