package orphans

import (
	"context"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// finder finds objects of ours at the target, of any kind. It changes no object: the agent observes their kinds
// from then on, and treats them like all observed objects.
type finder struct {
	engine *worklist.Worklist
	target *kubeclient.Client
	store  *store.Store
}

// kindOf returns a kind as the ownership metadata of its objects has it.
func (f *finder) kindOf(served kubeclient.Served) ownership.Kind {
	m := f.store.Meta()
	return ownership.Kind{Resource: served.Resource, Name: served.Kind, Placing: m.Placing, Shard: m.Shard}
}

// all adds all objects of ours of a resource to the worklist.
func (f *finder) all(ctx context.Context, served kubeclient.Served) error {
	return f.find(ctx, served, func(ours []key.Located) bool {
		f.engine.Adopt(served, ours)
		return true
	})
}

// one adds the first object of ours of a resource to the worklist. The agent then observes its kind, which shows
// the others.
func (f *finder) one(ctx context.Context, served kubeclient.Served) error {
	return f.find(ctx, served, func(ours []key.Located) bool {
		f.engine.Adopt(served, ours[:min(1, len(ours))])
		return len(ours) == 0
	})
}

// find passes the objects of ours of a resource to show, page by page, until show returns false. Objects that
// were written in another API group of the resource are left out.
func (f *finder) find(ctx context.Context, served kubeclient.Served, show func(ours []key.Located) (more bool)) error {
	self := f.engine.Self()
	_, err := f.target.Pages(ctx, served.Place, "", self.Selector(), false, func(l *kubeclient.Page) (more bool, err error) {
		var ours []key.Located
		for i := range l.Items {
			m := &l.Items[i].Metadata
			if located, ok := m.ProvesOurs(self, f.kindOf(served)); ok && m.WrittenAs(self, served.Resource) {
				ours = append(ours, located)
			}
		}
		return show(ours), nil
	})
	if kubeclient.MissingKind(err) {
		return nil // the kind is deleted, with its objects
	}
	return err
}
