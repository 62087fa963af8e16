package orphans

import (
	"context"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// finder finds objects of ours at the target, of any kind. It changes nothing there:
// what it finds is observed from then on, and treated like anything observed.
type finder struct {
	engine *worklist.Worklist
	target *kubeclient.Client
	store  *store.Store
}

// kindOf is a kind of objects as their marks have it.
func (f *finder) kindOf(of kubeclient.Served) ownership.Kind {
	m := f.store.Meta()
	return ownership.Kind{Resource: of.Resource, Name: of.Kind, Placing: m.Placing, Shard: m.Shard}
}

// all makes items of all objects of a resource that prove to be ours.
func (f *finder) all(ctx context.Context, of kubeclient.Served) error {
	return f.find(ctx, of, func(ours []key.Located) bool {
		f.engine.Adopt(of, ours)
		return true
	})
}

// one makes an item of the first object of a resource that proves to be ours: its kind
// is observed then, which shows the others.
func (f *finder) one(ctx context.Context, of kubeclient.Served) error {
	return f.find(ctx, of, func(ours []key.Located) bool {
		f.engine.Adopt(of, ours[:min(1, len(ours))])
		return len(ours) == 0
	})
}

// find passes to show, page by page, the objects of a resource that prove to be ours and
// were written as of its group, until show returns false.
func (f *finder) find(ctx context.Context, of kubeclient.Served, show func(ours []key.Located) (more bool)) error {
	self := f.engine.Self()
	_, err := f.target.Pages(ctx, of.Place, "", self.Selector(), false, func(l *kubeclient.Page) (more bool, err error) {
		var ours []key.Located
		for i := range l.Items {
			m := &l.Items[i].Metadata
			if at, ok := m.ProvesOurs(self, f.kindOf(of)); ok && m.WrittenAs(self, of.Resource) {
				ours = append(ours, at)
			}
		}
		return show(ours), nil
	})
	if kubeclient.MissingKind(err) {
		return nil // the kind has gone, with its objects
	}
	return err
}
