package hub

import (
	"context"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
)

// loops are what the hub does by itself while it runs.
func (h *Hub) loops() []func(context.Context) error {
	return []func(context.Context) error{
		h.agents.Run,
		h.compactLoop,
		h.spaceLoop,
		h.namespaceLoop,
		h.crdLoop,
		h.podLoop,
		h.namesLoop,
		h.placementLoop,
		h.customizerLoop,
		h.locationLoop,
		h.returnLoop,
	}
}

// compactLoop forgets history that nobody can resume from any more.
func (h *Hub) compactLoop(ctx context.Context) error {
	return h.log.Keep(ctx, store.Keeping{
		Every: h.config.CompactEvery,
		Floor: func() int64 {
			return max(h.table.Rev()-int64(h.config.WindowRevisions), h.table.Oldest())
		},
		Reached: h.table.Rev,
		Before:  h.leaveTrace,
		Quiet:   h.config.Quiet,
	})
}

func below(prefix string) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) { s.Ascend(prefix, fn) }
}

// inAllSpaces visits the rows of a resource in every space.
func inAllSpaces(r key.Resource) func(*table.Snapshot, func(*table.Row) bool) {
	return func(s *table.Snapshot, fn func(*table.Row) bool) {
		for _, name := range spacesOf(s) {
			more := true
			s.Ascend(key.ResourcePrefix(name, r), func(row *table.Row) bool {
				more = fn(row)
				return more
			})
			if !more {
				return
			}
		}
	}
}

// spacesOf lists root and the spaces there are, those being deleted included.
func spacesOf(s table.Reader) []key.Space {
	all := []key.Space{key.Root}
	s.Ascend(key.ResourcePrefix(key.Root, key.Spaces), func(row *table.Row) bool {
		if o, err := key.ParseObject(row.Key); err == nil {
			all = append(all, key.Space(o.Name))
		}
		return true
	})
	return all
}

// byKey names a change by its row's key.
func byKey(ch table.Change) []string { return []string{ch.Row().Key} }

// deletingByKey is byKey for objects that are being deleted.
func deletingByKey(ch table.Change) []string {
	if ch.Cur == nil || !ch.Cur.Meta.Deleting {
		return nil
	}
	return byKey(ch)
}

// namespaceLoop empties namespaces that are being deleted.
func (h *Hub) namespaceLoop(ctx context.Context) error {
	c := newController("namespaces", h.table, h.config.Logger, h.finish(h.spaces.FinishNamespace))
	return c.run(ctx, source{table.AcrossSpaces(key.Namespaces), inAllSpaces(key.Namespaces), deletingByKey})
}

// crdLoop deletes the objects of CRDs that are being deleted.
func (h *Hub) crdLoop(ctx context.Context) error {
	c := newController("customresourcedefinitions", h.table, h.config.Logger, h.finish(h.spaces.FinishCRD))
	return c.run(ctx, source{table.AcrossSpaces(key.CRDs), inAllSpaces(key.CRDs), deletingByKey})
}

// podLoop ends deletions of Pods that were left between their two steps.
func (h *Hub) podLoop(ctx context.Context) error {
	c := newController("pods", h.table, h.config.Logger, func(ctx context.Context, k string) error {
		o, err := key.ParseObject(k)
		if err != nil {
			return err
		}
		return progressed(h.spaces.FinishPod(ctx, o))
	})
	return c.run(ctx, source{table.AcrossSpaces(space.Pods), inAllSpaces(space.Pods), func(ch table.Change) []string {
		if !space.LeftBehind(ch.Cur) {
			return nil
		}
		return byKey(ch)
	}})
}

// namesLoop gives CRDs the names that others of their space have let go of.
func (h *Hub) namesLoop(ctx context.Context) error {
	c := newController("names", h.table, h.config.Logger, func(ctx context.Context, s string) error {
		return h.spaces.SettleNames(ctx, key.Space(s))
	})
	return c.run(ctx, source{table.AcrossSpaces(key.CRDs), inAllSpaces(key.CRDs), func(ch table.Change) []string {
		o, err := key.ParseObject(ch.Row().Key)
		if err != nil || ch.Prev == nil && space.NamesAccepted(ch.Cur) {
			return nil
		}
		return []string{string(o.Space)}
	}})
}

// finish makes a reconcile of something that goes towards the end of one
// object's deletion.
func (h *Hub) finish(end func(ctx context.Context, s key.Space, name string) (space.Progress, error)) func(context.Context, string) error {
	return func(ctx context.Context, k string) error {
		o, err := key.ParseObject(k)
		if err != nil {
			return err
		}
		return progressed(end(ctx, o.Space, o.Name))
	}
}

// progressed says when a deletion goes on: after the others that are waiting,
// so that a large one does not hold up those of other spaces.
func progressed(progress space.Progress, err error) error {
	switch {
	case err != nil:
		return err
	case progress == space.Waiting:
		return errLater
	case progress == space.More:
		return errMore
	}
	return nil
}
