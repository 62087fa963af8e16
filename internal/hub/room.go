package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

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
