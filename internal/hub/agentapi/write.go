package agentapi

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
)

// writeReports writes reports of one location. If the log has no room for all of them,
// those that need none are written, and the error tells the agent to send the rest again.
func (a *Server) writeReports(ctx context.Context, guard etcd.Guard, changes []etcd.Change) (int64, error) {
	var full error
	for need := etcd.Growth; ; need++ {
		part, bytes := a.reportsOf(changes, need)
		if len(part) == 0 {
			return 0, full
		}
		if others, _ := a.reportsOf(changes, need+1); len(others) == len(part) && need < etcd.Ending {
			continue // none of them is for that, so none lacks room for it
		}
		landed, err := a.config.Log.Capacity().Admit(ctx, need, bytes)
		if errors.Is(err, etcd.ErrFull) {
			full = respond.LogFull(err)
			continue
		}
		if err != nil {
			return 0, respond.Admitted(err)
		}
		rev, err := a.reports.write(ctx, guard, part)
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

// reportsOf are the changes that can be written while the log admits only need, and how
// many bytes they take.
func (a *Server) reportsOf(changes []etcd.Change, need etcd.Need) (part []etcd.Change, bytes int) {
	for _, c := range changes {
		of := etcd.Ending
		if c.Value != nil && !c.Keep {
			of = etcd.Growth
			if row, _ := a.config.Table.Get(c.Key); row != nil && len(row.Value) >= len(c.Value) {
				of = etcd.Upkeep
			}
		}
		if of >= need {
			part = append(part, c)
			if of != etcd.Ending {
				bytes += len(c.Key) + len(c.Value)
			}
		}
	}
	return part, bytes
}
