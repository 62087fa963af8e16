package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
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

// meter measures how large etcd's database is, and knows how large it may become.
type meter struct {
	client *clientv3.Client
	// server is the embedded etcd; nil: it is external.
	server *embed.Etcd
	// quota is the configured one; hardQuota is the one that an embedded etcd enforces.
	quota, hardQuota int64
	members          members
	logger           *slog.Logger
}

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
func (m *meter) measure(ctx context.Context) (Size, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := m.status(ctx)
	if err != nil {
		return Size{}, fmt.Errorf("ask etcd for its size: %w", err)
	}
	size := Size{Quota: m.quota, File: status.DbSize, InUse: status.DbSizeInUse}
	if m.server == nil {
		size.Quota = externalQuota(m.quota, status.DbSizeQuota)
	}
	for _, said := range status.Errors {
		size.Alarm = size.Alarm || strings.Contains(said, pb.AlarmType_NOSPACE.String())
	}
	return m.members.note(status.Header.MemberId, size), nil
}

// settle has etcd count as free what was freed until now, as far as its readers let it. Its
// database does so when it commits the next but one write transaction, once no reader is
// older, and a log that refuses writes has none. Leases make some that are no revision.
func (m *meter) settle(ctx context.Context) {
	for tries, alone := 0, 0; tries < settleTries && alone < settleCommits; tries++ {
		if lease, err := m.client.Grant(ctx, settleLease); err == nil {
			_, _ = m.client.Revoke(ctx, lease.ID) // else it ends by itself
		}
		alone++ // who reads in a cluster is not known
		if m.server != nil {
			backend := m.server.Server.Backend()
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

func (m *meter) status(ctx context.Context) (*pb.StatusResponse, error) {
	if m.server == nil { // Client.Status would open a connection each time
		return pb.NewMaintenanceClient(m.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	}
	status, err := m.client.Status(ctx, "")
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
func (m *meter) disarm(ctx context.Context, size Size) (bool, error) {
	if !size.Alarm || size.File+minReserve/4 > m.refuses(size) {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	raised, err := m.client.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list etcd's alarms: %w", err)
	}
	for _, a := range raised.Alarms {
		if a.Alarm != pb.AlarmType_NOSPACE {
			continue
		}
		if _, err := m.client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); err != nil {
			return false, fmt.Errorf("end etcd's alarm: %w", err)
		}
	}
	m.logger.Warn("there is room in the log again: etcd's alarm is ended", "fileBytes", size.File, "quotaBytes", size.Quota)
	return true, nil
}

// refuses is the file size above which etcd refuses puts.
func (m *meter) refuses(size Size) int64 {
	if m.server != nil {
		return m.hardQuota
	}
	return size.Quota
}
