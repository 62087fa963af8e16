package reconcile

import (
	"context"

	"orrery.dev/orrery/internal/agent/decide"
	"orrery.dev/orrery/internal/agent/fields"
	"orrery.dev/orrery/internal/agent/immutable"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// An API server fills in defaults, which no field manager owns. Server-side apply removes them only with a value
// that the agent owns and that they are in. So a default can outlive what it was the default for:
// a Deployment without a strategy has the parameters of a rolling update, with which it can't become
// Recreate. Where the API server refuses an object for such a value, the agent takes the value over, by a patch of
// the managed fields that changes no value and holds for that very revision. Its next apply then removes the value.

// maxStale bounds how often an apply is repeated without more such values: an API server need not name all at once.
const maxStale = 3

// put applies a body to the object of the turn. If that is refused for values that the source, object, does not
// write and that no field manager owns, they are taken over, so that another apply removes them. It returns their paths.
func (w *writer) put(ctx context.Context, t *turn, d decide.Decision, object, body []byte) (answer *ownership.Answer, removed []string, err error) {
	manager := t.view.As.Manager()
	answer, err = w.target.Apply(ctx, t.view.Place, t.id, manager, body)
	for range maxStale {
		invalid := immutable.InvalidFields(kubeclient.StatusOf(err))
		if d.UID == "" || len(invalid) == 0 {
			break
		}
		there, unread := w.target.GetAll(ctx, t.view.Place, t.id)
		if unread != nil || there.Metadata.UID != d.UID {
			break
		}
		stale, unread := fields.Unowned(invalid, object, there)
		if unread != nil || len(stale) == 0 {
			break
		}
		entries, ok, unread := fields.Claim(stale, there, manager)
		if unread != nil || !ok {
			break
		}
		if _, err := w.patch(ctx, t, "hand over", ownership.SetFields(&there.Metadata, entries)); err != nil {
			return &ownership.Answer{}, removed, err
		}
		removed = append(removed, stale...)
		answer, err = w.target.Apply(ctx, t.view.Place, t.id, manager, body)
	}
	return answer, removed, measured(err, body, object)
}
