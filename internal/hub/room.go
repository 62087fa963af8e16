package hub

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/kubeapi/write"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/lib/fairqueue"
)

const (
	// spaceRate and spaceBurst bound the bytes per second that the clients of one space
	// write; rateTimeout is how long a write waits before it is refused.
	spaceRate   = 16 << 20
	spaceBurst  = 128 << 20
	rateTimeout = 5 * time.Second
)

// room admits writes into spaces: by the rate of the space and by the log's room.
type room struct {
	log   *etcd.Log
	rates *fairqueue.Rates
}

var _ write.Room = room{}

// Admit implements write.Room.
func (r room) Admit(ctx context.Context, w write.Write) (done func(error) error, err error) {
	if w.ByUser && !w.Ends {
		if err := r.rates.Wait(ctx, string(w.Space), w.Bytes, rateTimeout); err != nil {
			return nil, err
		}
	}
	landed, err := r.log.Capacity().Admit(ctx, needOf(w), w.Bytes)
	if err != nil {
		return nil, respond.Admitted(err)
	}
	return func(err error) error {
		landed()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			r.log.Capacity().RefusedByEtcd()
			return respond.LogFull(fmt.Errorf("%w: etcd refuses every write", etcd.ErrFull))
		}
		if respond.Late(err) {
			return respond.Unanswered()
		}
		return err
	}, nil
}

// needOf is the log's need of a write into a space.
func needOf(w write.Write) etcd.Need {
	switch {
	case w.Ends:
		return etcd.Ending
	case w.Grows && w.ByUser:
		return etcd.Growth
	}
	return etcd.Upkeep
}
