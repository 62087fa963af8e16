package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/fair"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/space"
	"orrery.dev/orrery/internal/store"
)

const (
	// spaceRate and spaceBurst bound the bytes per second that the clients of one space
	// write, and ratePatience how long a write waits for that.
	spaceRate    = 16 << 20
	spaceBurst   = 128 << 20
	ratePatience = 5 * time.Second
)

// room asks for room in the log for what is written into spaces.
type room struct {
	log   *store.Log
	rates *fair.Rates
}

var _ space.Room = room{}

// Admit waits until a write may be made.
func (r room) Admit(ctx context.Context, w space.Write) (done func(error) error, err error) {
	if w.ByUser && !w.Ends {
		if err := r.rates.Wait(ctx, string(w.Space), w.Bytes, ratePatience); err != nil {
			return nil, err
		}
	}
	landed, err := r.log.Admit(ctx, needOf(w), w.Bytes)
	if err != nil {
		return nil, respond.Admitted(err)
	}
	return func(err error) error {
		landed()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			r.log.RefusedByEtcd()
			return respond.LogFull(fmt.Errorf("%w: etcd refuses every write", store.ErrFull))
		}
		return err
	}, nil
}

// needOf says what a write into a space is for.
func needOf(w space.Write) store.Need {
	switch {
	case w.Ends:
		return store.Ending
	case w.Grows && w.ByUser:
		return store.Growth
	}
	return store.Upkeep
}

// putRoom is Log.Put of an object that the hub writes itself, if there is room.
func (h *Hub) putRoom(ctx context.Context, need store.Need, k string, value []byte, modRev int64) (rev int64, ok bool, err error) {
	landed, err := h.log.Admit(ctx, need, len(k)+len(value))
	if err != nil {
		return 0, false, err
	}
	defer landed()
	if rev, ok, err = h.log.Put(ctx, k, value, modRev); errors.Is(err, rpctypes.ErrNoSpace) {
		h.log.RefusedByEtcd()
	}
	return rev, ok, err
}

// writeReports writes reports of one location. If the log has no room for all of them,
// those that take none are written, and the rest has to be sent again.
func (h *Hub) writeReports(ctx context.Context, guard store.Guard, changes []store.Change) (int64, error) {
	var full error
	for need := store.Growth; ; need++ {
		part, bytes := h.reportsOf(changes, need)
		if len(part) == 0 {
			return 0, full
		}
		landed, err := h.log.Admit(ctx, need, bytes)
		if errors.Is(err, store.ErrFull) {
			full = respond.LogFull(err)
			continue
		}
		if err != nil {
			return 0, respond.Admitted(err)
		}
		rev, err := h.reports.write(ctx, guard, part)
		landed()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			h.log.RefusedByEtcd()
			return 0, respond.LogFull(store.ErrFull)
		}
		if full != nil && err == nil {
			err = full
		}
		return rev, err
	}
}

// reportsOf are those of some changes that need no more room than a need has, and their bytes.
func (h *Hub) reportsOf(changes []store.Change, need store.Need) (part []store.Change, bytes int) {
	for _, c := range changes {
		of := store.Ending
		if c.Value != nil && !c.Keep {
			of = store.Growth
			if row, _ := h.table.Get(c.Key); row != nil && len(row.Value) >= len(c.Value) {
				of = store.Upkeep
			}
		}
		if of >= need {
			part = append(part, c)
			if of != store.Ending {
				bytes += len(c.Key) + len(c.Value)
			}
		}
	}
	return part, bytes
}

// withFull makes the condition Ready of a Space say that the log has no room.
func (h *Hub) withFull(space []byte, generation int64) ([]byte, error) {
	u := h.log.Usage()
	if !u.Full {
		return space, nil
	}
	var conditions []metav1.Condition
	if said := gjson.GetBytes(space, "status.conditions"); said.Exists() {
		if err := json.Unmarshal([]byte(said.Raw), &conditions); err != nil {
			return nil, fmt.Errorf("decode the conditions: %w", err)
		}
	}
	meta.SetStatusCondition(&conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonLogFull, ObservedGeneration: generation,
		Message: "the hub's log is out of space: " + u.Why, LastTransitionTime: metav1.NewTime(u.Since),
	})
	return sjson.SetBytes(space, "status.conditions", conditions)
}
