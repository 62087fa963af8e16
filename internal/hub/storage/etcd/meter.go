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
	// statusTimeout is the timeout of a request for the log's size.
	statusTimeout = 5 * time.Second
	// freeCommits is the number of commits, one each freeEvery, after which freed pages count as
	// free. freeTries is the maximum number of commits while read transactions are open.
	freeCommits = 3
	freeTries   = 20
	freeEvery   = 110 * time.Millisecond // etcd commits every 100 ms
	// freeLease is the TTL in seconds of a lease whose revocation failed.
	freeLease = 60
)

// meter measures the size of etcd's database, and knows its quotas.
type meter struct {
	client *clientv3.Client
	// server is the embedded etcd; nil if etcd is external.
	server *embed.Etcd
	// quota is the configured quota; hardQuota is the quota that an embedded etcd enforces.
	quota, hardQuota int64
	members          members
	logger           *slog.Logger
}

// members has the last reported size of each member of an etcd cluster.
type members struct {
	mu  sync.Mutex
	all map[uint64]Size
}

// record records the size of one member. It returns that size with the largest File and InUse and
// the smallest Quota of all members.
func (m *members) record(id uint64, reported Size) Size {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[uint64]Size{}
	}
	m.all[id] = reported
	for _, other := range m.all {
		reported.File, reported.InUse = max(reported.File, other.File), max(reported.InUse, other.InUse)
		reported.Quota = min(reported.Quota, other.Quota)
	}
	return reported
}

// measure requests the size of etcd's database; in a cluster, of a different member each time.
func (m *meter) measure(ctx context.Context) (Size, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	status, err := m.status(ctx)
	if err != nil {
		return Size{}, fmt.Errorf("request the size of etcd's database: %w", err)
	}
	size := Size{Quota: m.quota, File: status.DbSize, InUse: status.DbSizeInUse}
	if m.server == nil {
		size.Quota = externalQuota(m.quota, status.DbSizeQuota)
	}
	for _, message := range status.Errors {
		size.Alarm = size.Alarm || strings.Contains(message, pb.AlarmType_NOSPACE.String())
	}
	return m.members.record(status.Header.MemberId, size), nil
}

// commitFreed makes etcd count freed pages as free. etcd's database does so at its second next write
// transaction, once no older read transaction is open. A log that refuses writes has no write
// transactions, so commitFreed grants and revokes leases, which make transactions without a
// revision. It gives up after freeTries.
func (m *meter) commitFreed(ctx context.Context) {
	for tries, alone := 0, 0; tries < freeTries && alone < freeCommits; tries++ {
		if lease, err := m.client.Grant(ctx, freeLease); err == nil {
			_, _ = m.client.Revoke(ctx, lease.ID) // if it fails, the lease expires
		}
		alone++ // the read transactions of an external etcd are unknown
		if m.server != nil {
			backend := m.server.Server.Backend()
			if backend.ForceCommit(); backend.OpenReadTxN() > 1 {
				alone = 0
			}
		}
		select {
		case <-time.After(freeEvery):
		case <-ctx.Done():
			return
		}
	}
}

func (m *meter) status(ctx context.Context) (*pb.StatusResponse, error) {
	if m.server == nil { // Client.Status would open a new connection
		return pb.NewMaintenanceClient(m.client.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	}
	status, err := m.client.Status(ctx, "")
	return (*pb.StatusResponse)(status), err
}

// externalQuota returns the quota of an external etcd: the smaller one of the configured quota and
// the quota that etcd reports. etcd reports it since version 3.6; 0 means that it does not, and a
// negative quota that it has none.
func externalQuota(configured, reported int64) int64 {
	switch {
	case configured > 0 && reported > 0:
		return min(configured, reported)
	case configured > 0:
		return configured
	case reported > 0:
		return reported
	case reported < 0:
		return DefaultQuota
	}
	return unknownQuota
}

// disarm ends the NOSPACE alarms, during which etcd refuses every put, and reports whether it did. It
// does nothing if there is no room: etcd would raise the alarm again with the next put.
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

// refuses returns the file size in bytes above which etcd refuses puts.
func (m *meter) refuses(size Size) int64 {
	if m.server != nil {
		return m.hardQuota
	}
	return size.Quota
}
