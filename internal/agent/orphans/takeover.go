package orphans

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/agent/hubclient"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/agent/observe"
	"orrery.dev/orrery/internal/agent/store"
	"orrery.dev/orrery/internal/agent/worklist"
	"orrery.dev/orrery/internal/lib/retry"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// proofRetry is the wait before another look at objects while the hub has not answered whether its log contains
// them.
const proofRetry = time.Second

// Takeover finds the objects at the target that belong to locations which this one takes over. It gives them the
// ownership metadata of this location, whether they are desired or not. The agent then observes and treats them
// like all others. An object stays as it is while the hub's log is not proven to contain it.
//
// It searches at each start of the agent, and when the locations to take over change, until every kind was
// listed and all objects that it found are taken over. After that it makes no requests.
type Takeover struct {
	finder
	state  *hubclient.State
	prover *hubclient.Prover
	gate   *observe.Gate
	log    *slog.Logger

	unproven atomic.Int64 // objects that the last search left since the hub's log lacks them
}

// Unproven returns the number of objects that are not taken over before the hub's log is accepted.
func (h *Takeover) Unproven() int { return int(h.unproven.Load()) }

// NewTakeover returns a Takeover, which searches the target for objects to take over.
func NewTakeover(e *worklist.Worklist, t *kubeclient.Client, st *store.Store, state *hubclient.State, p *hubclient.Prover, g *observe.Gate, log *slog.Logger) *Takeover {
	return &Takeover{finder: finder{engine: e, target: t, store: st}, state: state, prover: p, gate: g, log: log}
}

// takeoverInput is the input of a search. If it changes, the search starts from the beginning.
type takeoverInput struct {
	formers  []ownership.Owner
	epoch    int
	accepted bool
}

func (b takeoverInput) equal(o takeoverInput) bool {
	return slices.Equal(b.formers, o.formers) && b.epoch == o.epoch && b.accepted == o.accepted
}

// Run searches while there are locations to take over, until ctx ends.
func (h *Takeover) Run(ctx context.Context) {
	var last takeoverInput
	var round uint8
	var again time.Time
	for ; ctx.Err() == nil; retry.Pause(ctx, scanInterval) {
		m := h.store.Meta()
		now := takeoverInput{m.Formers(), m.Epoch, h.state.Accepted()}
		if !now.equal(last) {
			last, round, again = now, 0, time.Time{}
			h.unproven.Store(0)
		}
		if len(now.formers) == 0 || round >= Rounds || time.Now().Before(again) || !h.state.Known() || h.gate.Why() != "" {
			continue
		}
		found, missed := h.search(ctx, now.formers)
		h.unproven.Store(found.missing)
		switch {
		case ctx.Err() != nil:
			return
		case found.unasked > 0:
			again = time.Now().Add(proofRetry)
		case len(missed) == 0 && found.left == 0:
			round = Rounds
		default:
			again = time.Now().Add(retry.Backoff(round, scanRetry, MaxRetry))
			round++
			h.log.Info("not all that the location takes over is its own yet", "left", found.left, "unproven", found.missing, "not searched", firstMissed(missed))
		}
	}
}

// finding counts the objects that could not be taken over: left is all of them. unasked are those for which the
// hub has not answered yet whether its log contains them, and missing those that its log lacks.
type finding struct {
	left, unasked int
	missing       int64
}

// search looks for objects to take over in all kinds. It returns the names of those that it could not search.
func (h *Takeover) search(ctx context.Context, formers []ownership.Owner) (found finding, missed []string) {
	all, err := h.target.Removable(ctx)
	if err != nil {
		missed = append(missed, wire.Brief(err.Error()))
	}
	for _, served := range all {
		if kubeclient.IsEvent(served.Resource) || ctx.Err() != nil || h.gate.Why() != "" {
			continue
		}
		retry.Pause(ctx, scanPause)
		if err := h.kind(ctx, served, formers, &found); err != nil {
			h.log.Debug("a resource cannot be searched now", "resource", served.String(), "error", err)
			missed = append(missed, served.String())
		}
	}
	if why := h.gate.Why(); why != "" {
		missed = append(missed, why)
	}
	return found, missed
}

// kind takes over the objects of one kind.
func (h *Takeover) kind(ctx context.Context, served kubeclient.Served, formers []ownership.Owner, found *finding) error {
	_, err := h.target.Pages(ctx, served.Place, "", ownership.SelectorOf(formers), false, func(l *kubeclient.Page) (more bool, err error) {
		for i := range l.Items {
			m := &l.Items[i].Metadata
			from := m.ProvesAny(formers, h.kindOf(served))
			if from == "" || !m.WrittenAs(from, served.Resource) || m.DeletionTimestamp != "" {
				continue
			}
			if err := h.object(ctx, served, m, from, found); err != nil {
				return false, err
			}
		}
		return h.gate.Why() == "", nil
	})
	if kubeclient.MissingKind(err) {
		return nil // the kind is deleted, with its objects
	}
	return err
}

// object takes over one object if the hub's log is proven to contain it.
func (h *Takeover) object(ctx context.Context, served kubeclient.Served, m *ownership.Meta, from ownership.Owner, found *finding) error {
	self := h.engine.Self()
	o, _ := m.ProvesOurs(from, h.kindOf(served))
	switch h.prover.Check(o.Identity.String(), m.Log(), time.Now()) {
	case ownership.Given:
	case ownership.Unasked:
		found.unasked++
		found.left++
		return nil
	default:
		found.missing++
		found.left++
		return nil
	}
	if !h.store.Meta().Inherits { // otherwise an agent that is killed after the patch would not know of the takeover
		if err := h.store.Write(ctx, func(t *store.Tx) error { t.Target.SetTakesOver(); return nil }); err != nil {
			return err
		}
	}
	body, err := json.Marshal(ownership.Succeed(m, from, self))
	if err != nil {
		return fmt.Errorf("encode a patch: %w", err)
	}
	_, err = h.target.Merge(kubeclient.As(ctx, m.Account()), "take over", served.Place, o.Identity, self.Manager(), body)
	switch {
	case err == nil:
	case apierrors.IsConflict(err), kubeclient.MissingObject(err, o.Identity): // another client was faster; the next round tries again
		found.left++
		return nil
	case kubeclient.Unavailable(err):
		return err
	default: // the takeover of other objects may succeed
		h.log.Warn("an object of a former location can't be taken over", "object", o.Source().Path(), "from", from, "error", err)
		found.left++
		return nil
	}
	h.log.Info("took over an object of a former location", "object", o.Source().Path(), "from", from)
	h.engine.Adopt(served, []key.Located{o})
	return nil
}
