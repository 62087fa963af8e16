package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// statusTimeout bounds a request for the log's size.
	statusTimeout = 5 * time.Second
	// settleCommits is after how many commits, every settleEvery, what was freed before
	// counts as free, and settleTries how many are made while others read.
	settleCommits = 3
	settleTries   = 20
	settleEvery   = 110 * time.Millisecond // etcd commits every 100 ms
	// settleLease is how long a lease lasts that nobody revokes, in seconds.
	settleLease = 60
)

// members are the sizes that the members of an etcd cluster last said.
type members struct {
	mu  sync.Mutex
	all map[uint64]Size
}

// note notes the size of one member, and returns the largest of all.
func (m *members) note(id uint64, said Size) Size {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[uint64]Size{}
	}
	m.all[id] = said
	for _, other := range m.all {
		said.File, said.InUse = max(said.File, other.File), max(said.InUse, other.InUse)
		said.Quota = min(said.Quota, other.Quota)
	}
	return said
}

// measure asks etcd for its size; in a cluster, a different member each time.
func (l *Log) measure(ctx context.Context) (Size, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := l.status(ctx)
	if err != nil {
		return Size{}, fmt.Errorf("ask etcd for its size: %w", err)
	}
	size := Size{Quota: l.quota, File: status.DbSize, InUse: status.DbSizeInUse}
	if l.server == nil {
		size.Quota = externalQuota(l.quota, status.DbSizeQuota)
	}
	for _, said := range status.Errors {
		size.Alarm = size.Alarm || strings.Contains(said, pb.AlarmType_NOSPACE.String())
	}
	return l.members.note(status.Header.MemberId, size), nil
}

// settle has etcd count as free what was freed until now, as far as its readers let it. Its
// database does so when it commits the next but one write transaction, once no reader is
// older, and a log that refuses writes has none. Leases make some that are no revision.
func (l *Log) settle(ctx context.Context) {
	for tries, alone := 0, 0; tries < settleTries && alone < settleCommits; tries++ {
		if lease, err := l.client.Grant(ctx, settleLease); err == nil {
			_, _ = l.client.Revoke(ctx, lease.ID) // else it ends by itself
		}
		alone++ // who reads in a cluster is not known
		if l.server != nil {
			backend := l.server.Server.Backend()
			if backend.ForceCommit(); backend.OpenReadTxN() > 1 {
				alone = 0
			}
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (l *Log) status(ctx context.Context) (*pb.StatusResponse, error) {
	if l.server == nil { // Client.Status would open a connection each time
		return pb.NewMaintenanceClient(l.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	}
	status, err := l.client.Status(ctx, "")
	return (*pb.StatusResponse)(status), err
}

// externalQuota is the quota of an external etcd: the configured one (told), but no more
// than etcd says itself, which it does from 3.6 on.
func externalQuota(told, said int64) int64 {
	switch {
	case told > 0 && said > 0:
		return min(told, said)
	case told > 0:
		return told
	case said > 0:
		return said
	case said < 0: // it has none
		return DefaultQuota
	}
	return unknownQuota
}

// disarm ends the alarms by which etcd refuses every put, if there is room again;
// without room it would raise them with the next put.
func (l *Log) disarm(ctx context.Context, size Size) (bool, error) {
	if !size.Alarm || size.File+minReserve/4 > l.refuses(size) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	raised, err := l.client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list etcd's alarms: %w", err)
	}
	for _, a := range raised.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := l.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return false, fmt.Errorf("end etcd's alarm: %w", err)
		}
	}
	l.logger.Warn("there is room in the log again: etcd's alarm is ended", "fileBytes", size.File, "quotaBytes", size.Quota)
	return true, nil
}

// refuses is the file size above which etcd refuses puts.
func (l *Log) refuses(size Size) int64 {
	if l.server != nil {
		return l.hardQuota
	}
	return size.Quota
}

// durations sums up how often something was done, and how long it took in all.
type durations struct {
	mu    sync.Mutex
	count int
	took  time.Duration
}

func (d *durations) note(took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	d.took += took
}

// Usage is how much of its quota the log uses, and what was done to keep within it.
type Usage struct {
	Size
	// History is about how many of the bytes in use are history.
	History int64
	// Full says that there is no room for writes that make the log larger.
	Full bool
	// Since is when Full last changed.
	Since time.Time
	// Why says why there is no room, and what to do.
	Why string
	// Refused counts the writes that were refused. Defragmentations is how often the log
	// was defragmented, and Defragmenting how long that took in all.
	Refused          int64
	Defragmentations int
	Defragmenting    time.Duration
}

// Usage is the log's usage when it was last measured.
func (l *Log) Usage() Usage {
	var u Usage
	u.Size, u.Full, u.Refused = l.room.state()
	u.Since = l.room.changed()
	u.Full, u.History = u.Full || u.Alarm, l.history.kept()
	if u.Full {
		u.Why = u.describe(l.server == nil)
	}
	l.defragmentations.mu.Lock()
	defer l.defragmentations.mu.Unlock()
	u.Defragmentations, u.Defragmenting = l.defragmentations.count, l.defragmentations.took
	return u
}

// Admit waits until there is room for a write of a number of bytes, key included. It fails
// with ErrFull if there is none, and with ErrLate if making room takes too long. done must
// be called when the write has ended.
func (l *Log) Admit(ctx context.Context, need Need, bytes int) (done func(), err error) {
	return l.room.admit(ctx, need, int64(bytes)+putOverhead)
}

// RefusedByEtcd says that etcd itself refused a write for want of room, so that room is made
// at once.
func (l *Log) RefusedByEtcd() { l.room.press() }
