package agentapi

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// writeReports writes reports of one location. If the quota of the log does not allow all of them, it
// writes those that free space, and the error makes the agent send the others again.
func (a *Server) writeReports(ctx context.Context, guard etcd.Guard, changes []etcd.Change) (int64, error) {
	var full error
	for need := etcd.Growth; ; need++ {
		writable, bytes := a.reportsOf(changes, need)
		if len(writable) == 0 {
			return 0, full
		}
		if others, _ := a.reportsOf(changes, need+1); len(others) == len(writable) && need < etcd.Ending {
			continue // no change is of this need, so none is refused for it
		}
		landed, err := a.config.Log.Capacity().Admit(ctx, need, bytes)
		if errors.Is(err, etcd.ErrFull) {
			full = respond.LogFull(err)
			continue
		}
		if err != nil {
			return 0, respond.Admitted(err)
		}
		rev, err := a.reports.write(ctx, guard, writable)
		landed()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			a.config.Log.Capacity().RefusedByEtcd()
			return 0, respond.LogFull(etcd.ErrFull)
		}
		if full != nil && err == nil {
			err = full
		}
		return rev, err
	}
}

// reportsOf returns the changes that can be written while the log admits only need, and their size in
// bytes.
func (a *Server) reportsOf(changes []etcd.Change, need etcd.Need) (writable []etcd.Change, bytes int) {
	for _, c := range changes {
		required := etcd.Ending
		if c.Value != nil && !c.Keep {
			required = etcd.Growth
			if row, _ := a.config.Table.Get(c.Key); row != nil && len(row.Value) >= len(c.Value) {
				required = etcd.Upkeep
			}
		}
		if required >= need {
			writable = append(writable, c)
			if required != etcd.Ending {
				bytes += len(c.Key) + len(c.Value)
			}
		}
	}
	return writable, bytes
}
