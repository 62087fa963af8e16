package mapper

import (
	"context"
	"errors"

	"orrery.dev/orrery/internal/mapper/marks"
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
		t.meta.Seen = marks.Pair{}
		t.meta.Accepted, t.meta.Epoch = marks.NewPair(h.Marker, h.Revision), t.meta.Epoch+1
		t.meta.ReportsAgreed = false
		return nil
	}); err != nil {
		return err
	}
	st.accepted()
	return errAccepted
}

// marks.TakeOver makes the fields of an object, which is recorded as ours, this
// location's that were those of one of its name before.
func (r *reconciler) takeOver(ctx context.Context, t *turn, m marks.Meta) (marks.Meta, error) {
	fields, moved := marks.TakeOver(m.ManagedFields, t.view.as)
	if !moved {
		return m, nil
	}
	return r.patch(ctx, t, "hand over", marks.SetFields(&m, fields))
}
