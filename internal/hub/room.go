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
