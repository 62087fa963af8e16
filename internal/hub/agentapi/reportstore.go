package agentapi

import (
	"context"
	"errors"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reportStore has the reports of locations. It reads them from the table, and writes them to the log
// within its quota and while their location exists. A location may only write reports of objects that
// mayReport accepts. It is safe for concurrent use; writer must run.
type reportStore struct {
	table *table.Table
	log   *etcd.Log
	// committed blocks until the table contains every acknowledged write.
	committed func(context.Context) error
	writer    *reportWriter
	letGo     letGo
}

func newReportStore(t *table.Table, log *etcd.Log, committed func(context.Context) error) *reportStore {
	return &reportStore{table: t, log: log, committed: committed, writer: newReportWriter(log)}
}

// guard returns the guard that a location still exists. Reports of a location that is removed
// meanwhile are not written.
func (a *reportStore) guard(l key.Location) (etcd.Guard, error) {
	location, _ := a.table.Get(l.Key())
	if location == nil {
		return etcd.Guard{}, respond.NotFound(route.Agent(l).String())
	}
	return etcd.Guard{Key: location.Key, CreateRev: location.CreateRev}, nil
}

// awaitPending waits until the table contains all pending reports of a location, including those of
// requests that have ended. A comparison must not use reports that are about to be replaced.
func (a *reportStore) awaitPending(ctx context.Context, l key.Location) error {
	guard, err := a.guard(l)
	if err != nil {
		return err
	}
	if moved, err := a.writer.drain(ctx, guard); err != nil || !moved {
		return err
	}
	return a.committed(ctx)
}

// mayReport reports whether a location may report an object: the object is assigned to the location,
// or there is a report from the time when it was, or the agent was recently notified that it no
// longer is.
func (a *reportStore) mayReport(l key.Location, object key.Object, reportKey string) bool {
	if row, _ := a.table.Get(reportKey); row != nil || a.letGo.contains(l, reportKey) {
		return true
	}
	row, _ := a.table.Get(object.Key())
	return row != nil && row.In != nil && row.In.Includes(l)
}

// recordLetGo records that an agent is notified that the object of a path is no longer desired.
func (a *reportStore) recordLetGo(l key.Location, path string) {
	o, err := key.ParsePath(path)
	if err != nil {
		return
	}
	report := key.Report{Location: l, Origin: key.Placed, Object: o}.Key()
	if row, _ := a.table.Get(report); row == nil {
		a.letGo.record(l, report)
	}
}

// leaves returns the leaves of the reports of a location's shard, for an agent with some abilities.
func (a *reportStore) leaves(ctx context.Context, from agentRequest) ([]wire.Leaf, int64, error) {
	state := a.table.Snapshot()
	// Rows are sorted by space first, and lines by origin first.
	all := map[key.Origin][]wire.Leaf{}
	state.Ascend(key.LocationReports(from.location), func(row *table.Row) bool {
		if report, err := key.ParseReport(row.Key); err == nil && from.shard.Contains(report.Object.Space) && (report.Origin == key.Placed || from.can.upsyncs) {
			all[report.Origin] = append(all[report.Origin], wire.Leaf{Key: report.Line(), Sum: wire.SumOf(row.Report())})
		}
		return ctx.Err() == nil
	})
	return slices.Concat(all[key.Placed], all[key.Upsynced], all[key.Owned]), state.Rev, ctx.Err()
}

// write writes reports of one location. If the quota of the log does not allow all of them, it
// writes those that free space, and the error makes the agent send the others again.
func (a *reportStore) write(ctx context.Context, guard etcd.Guard, changes []etcd.Change) (int64, error) {
	var full error
	for need := etcd.Growth; ; need++ {
		writable, bytes := a.writable(changes, need)
		if len(writable) == 0 {
			return 0, full
		}
		if others, _ := a.writable(changes, need+1); len(others) == len(writable) && need < etcd.Ending {
			continue // no change is of this need, so none is refused for it
		}
		landed, err := a.log.Capacity().Admit(ctx, need, bytes)
		if errors.Is(err, etcd.ErrFull) {
			full = respond.LogFull(err)
			continue
		}
		if err != nil {
			return 0, respond.Admitted(err)
		}
		rev, err := a.writer.write(ctx, guard, writable)
		landed()
		if errors.Is(err, rpctypes.ErrNoSpace) {
			a.log.Capacity().RefusedByEtcd()
			return 0, respond.LogFull(etcd.ErrFull)
		}
		if full != nil && err == nil {
			err = full
		}
		return rev, err
	}
}

// writable returns the changes that can be written while the log admits only need, and their size in
// bytes.
func (a *reportStore) writable(changes []etcd.Change, need etcd.Need) (all []etcd.Change, bytes int) {
	for _, c := range changes {
		required := etcd.Ending
		if c.Value != nil && !c.Keep {
			required = etcd.Growth
			if row, _ := a.table.Get(c.Key); row != nil && len(row.Value) >= len(c.Value) {
				required = etcd.Upkeep
			}
		}
		if required >= need {
			all = append(all, c)
			if required != etcd.Ending {
				bytes += len(c.Key) + len(c.Value)
			}
		}
	}
	return all, bytes
}
