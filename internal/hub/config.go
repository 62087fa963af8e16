// Package hub is one hub process: it opens the log, serves spaces, views and agents over
// HTTPS, runs the controllers (status, counts, the end of deletions), and stops all of it
// in order.
//
// It wires packages that do not know each other; a rule about what an object means belongs
// in one of them, not here.
package hub

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"orrery.dev/orrery/internal/hub/advertise"
	"orrery.dev/orrery/internal/hub/audit"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/lib/fairqueue"
)

// Config is how a hub runs.
type Config struct {
	// DataDir keeps the log (when embedded), its keys, the certificate authority and admin.kubeconfig.
	DataDir string
	// Listen is the address to serve on, HOST:PORT. Port 0 chooses one.
	Listen string
	// Advertise are the URLs under which clients and agents reach the hub, each
	// [NAME=]URL, the default first; if empty, one is derived from Listen. AdvertiseCA says
	// by what the certificate there is verified, each NAME=FILE or NAME=system, where that
	// is not the hub's own authority.
	Advertise, AdvertiseCA []string
	// EtcdServers are the client URLs of an external etcd; if empty, etcd is embedded.
	EtcdServers []string
	// EtcdCA is the file of the certificates by which that is verified, EtcdCert and EtcdKey
	// those of the client certificate that it is shown; each may be empty.
	EtcdCA, EtcdCert, EtcdKey string
	// EncryptionConfig is the file of an EncryptionConfiguration of Kubernetes, by which
	// values of the log are encrypted; if empty, it is one in DataDir that the first start
	// creates.
	EncryptionConfig string
	// AuthenticationConfig is the file of a Kubernetes AuthenticationConfiguration: the OpenID issuers that
	// authenticate users. If empty, there are none.
	AuthenticationConfig string
	// Audit is how the audit log is written; without a policy there is none.
	Audit audit.Config
	// Heartbeat is the interval of pings on a quiet session.
	Heartbeat time.Duration
	// PingTimeout is how long a client may take to answer a ping of HTTP/2 before the hub closes
	// its connection. If zero, it is Heartbeat, but at least 2s and at most 15s.
	PingTimeout time.Duration
	// QueueTimeout is how long a request waits for its turn before the hub rejects it. If zero,
	// each queue has its own default.
	QueueTimeout time.Duration
	// InspectTimeout is how long an agent may take to answer an inspect request. If zero, it is 30s.
	InspectTimeout time.Duration
	// Disconnected is how long a location may be without a session before it
	// counts as disconnected.
	Disconnected time.Duration
	// Lease is the lease duration of the hub: if the hub does not renew its lease in time, other hubs consider
	// it dead and take over its tasks, and it ends its sessions. With an embedded etcd there is no other hub.
	Lease time.Duration
	// CredentialLife is how long the certificate of an agent is good; it is renewed when
	// two thirds of that have passed. CredentialLate is for how long after its end it can
	// still be renewed, and nothing else; 0: not at all.
	CredentialLife, CredentialLate time.Duration
	// BatchDelay is how long the hub waits for more changes before it writes computed counts.
	BatchDelay time.Duration
	// RoomRetry is the interval of retries of what users have to make room for.
	RoomRetry time.Duration
	// WindowRevisions is how many revisions watchers can go back.
	WindowRevisions int
	// WindowBytes bounds the memory of each window.
	WindowBytes int
	// CompactEvery is the interval of compactions of history that left the window.
	CompactEvery time.Duration
	// Quota is how large the log may become, in bytes. 0 means 8 GiB for an embedded etcd, or
	// a quarter of Memory if that is less,
	// and for an external one its own quota.
	Quota int64
	// Quiet is how long an embedded log must be without writes before it is defragmented
	// to give free space back to the disk.
	Quiet time.Duration
	// Throttle limits the work by which an embedded log makes room, which blocks writes.
	Throttle etcd.Throttle
	// MaxReads and MaxWrites are how many requests that read, or write, are worked on at
	// once. The others wait for a turn, shared fairly between spaces.
	MaxReads, MaxWrites int
	// MaxWatches is how many watches, and statuses that are followed, may be open at once.
	MaxWatches int
	// Memory is the memory limit of the process in bytes; 0 if unknown. It limits the quota of the log to a
	// size that the hub can hold in memory.
	Memory int64
	// PlainTables leaves PLACED, APPLIED, HEALTHY and FAILED out of tables, for a hub whose
	// spaces stand in for clusters.
	PlainTables bool
	// UnsafeNoFsync trades durability for speed, for tests and demos.
	UnsafeNoFsync bool
	// Logger receives the hub's log messages.
	Logger *slog.Logger
	// Now is the clock of timestamps that the hub writes.
	Now func() time.Time
	// made sees the hub before it runs, for tests that look into it.
	made func(*Hub)
}

// minLease is less than which etcd does not grant: it has to survive the election of another
// of its members.
const minLease = 2 * time.Second

// DefaultConfig is a hub with an embedded log, on the loopback interface.
func DefaultConfig() Config {
	return Config{
		DataDir:         "orrery-data",
		Listen:          "127.0.0.1:8443",
		Audit:           audit.Config{MaxSize: 100, MaxBackups: 10, MaxAge: 30},
		Heartbeat:       30 * time.Second,
		Disconnected:    90 * time.Second,
		Lease:           10 * time.Second,
		CredentialLife:  30 * 24 * time.Hour,
		CredentialLate:  400 * 24 * time.Hour,
		BatchDelay:      300 * time.Millisecond,
		RoomRetry:       30 * time.Second,
		WindowRevisions: 20000,
		WindowBytes:     128 << 20,
		CompactEvery:    time.Minute,
		Quiet:           30 * time.Second,
		Throttle:        etcd.DefaultThrottle(),
		MaxReads:        200,
		MaxWrites:       100,
		MaxWatches:      10_000,
		Logger:          slog.New(slog.DiscardHandler),
		Now:             time.Now,
	}
}

// Validate returns an error for an invalid configuration.
func (c Config) Validate() error {
	if c.DataDir == "" {
		return errors.New("no data directory given")
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen address %q: %w", c.Listen, err)
	}
	if len(c.Advertise)+len(c.AdvertiseCA) > 0 {
		if err := advertise.Check(c.Advertise, c.AdvertiseCA); err != nil {
			return err
		}
	}
	if c.Heartbeat <= 0 || c.Disconnected < c.Heartbeat {
		return fmt.Errorf("heartbeat %s and disconnected %s: want 0 < heartbeat <= disconnected", c.Heartbeat, c.Disconnected)
	}
	if c.PingTimeout < 0 || c.QueueTimeout < 0 || c.InspectTimeout < 0 {
		return fmt.Errorf("timeouts of pings %s, queues %s and inspect requests %s: want 0 or more", c.PingTimeout, c.QueueTimeout, c.InspectTimeout)
	}
	if (c.EtcdCert == "") != (c.EtcdKey == "") {
		return errors.New("a client certificate for etcd needs a file of the certificate and one of its key")
	}
	if len(c.EtcdServers) == 0 && c.EtcdCA+c.EtcdCert != "" {
		return errors.New("certificates for etcd are given, and no etcd")
	}
	if c.Lease < minLease {
		return fmt.Errorf("lease of %s: want at least %s", c.Lease, minLease)
	}
	if err := c.Audit.Validate(); err != nil {
		return err
	}
	if c.CredentialLife < time.Second || c.CredentialLate < 0 {
		return fmt.Errorf("certificates of agents live for %s and can be renewed for %s after: want at least 1s, and 0 or more", c.CredentialLife, c.CredentialLate)
	}
	if c.RoomRetry <= 0 {
		return fmt.Errorf("room retry interval %s: want more than 0", c.RoomRetry)
	}
	if c.WindowRevisions <= 0 || c.WindowBytes <= 0 {
		return fmt.Errorf("window of %d revisions and %d bytes: want both above 0", c.WindowRevisions, c.WindowBytes)
	}
	if c.Quota != 0 && c.Quota < etcd.MinQuota {
		return fmt.Errorf("quota of %d bytes: want at least %d", c.Quota, etcd.MinQuota)
	}
	if c.Throttle.Factor < 0 || c.Throttle.Least <= 0 {
		return fmt.Errorf("pauses of %d times the work and at least %s: want 0 or more, and more than 0", c.Throttle.Factor, c.Throttle.Least)
	}
	if c.MaxReads <= 0 || c.MaxWrites <= 0 || c.MaxWatches <= 0 {
		return fmt.Errorf("%d reads, %d writes and %d watches at once: want all above 0", c.MaxReads, c.MaxWrites, c.MaxWatches)
	}
	return nil
}

// memoryPart is the part of the memory that the log of a hub may have by default: in memory the
// hub has everything once, which takes up to five times what it does in the log.
const memoryPart = 4

// quota is how large the log may become; 0: what its etcd says.
func (c Config) quota() int64 {
	if c.Quota != 0 || len(c.EtcdServers) > 0 || c.Memory <= 0 {
		return c.Quota
	}
	return min(etcd.DefaultQuota, max(c.Memory/memoryPart, etcd.MinQuota))
}

// pingTimeout is how long a client may take to answer a ping of HTTP/2.
func (c Config) pingTimeout() time.Duration {
	return cmp.Or(c.PingTimeout, min(max(c.Heartbeat, minPing), maxPing))
}

// newQueue makes a queue that lets so many requests through at once.
func (c Config) newQueue(limit int) *fairqueue.Queue {
	config := fairqueue.Defaults(limit)
	config.Timeout = cmp.Or(c.QueueTimeout, config.Timeout)
	return fairqueue.NewQueue(config)
}
