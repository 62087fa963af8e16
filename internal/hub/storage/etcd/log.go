// Package etcd is the log: every key of the hub below one etcd prefix, in an embedded
// etcd or an external cluster. It opens and closes the log, tails it into the table a
// revision at a time, makes the hub's own batched writes, writes the hub marker, and
// compacts history that has left the table's window.
//
// It must never interpret a value: other packages define the meaning of values and their encryption.
package etcd

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"orrery.dev/orrery/internal/protocol/key"
)

// Prefix is the prefix of the hub's keys in etcd.
const Prefix = "/orrery/"

// Config configures Open.
type Config struct {
	// DataDir is the directory of an embedded etcd, for one process at a time.
	DataDir string
	// Servers are the client URLs of an external etcd; if empty, etcd is embedded.
	Servers []string
	// CAFile has the PEM certificates by which an external etcd is verified. CertFile and KeyFile
	// have the client certificate, and are read again for each connection. Each may be empty.
	CAFile, CertFile, KeyFile string
	// UnsafeNoFsync makes tests and demos faster, but a crash of the machine can lose writes.
	UnsafeNoFsync bool
	// Quota is the maximum size of the log in bytes. 0 means DefaultQuota for an embedded etcd, and
	// the quota of the server for an external one.
	Quota int64
	// Sealer encrypts values; if nil, values are stored in plain text.
	Sealer Sealer
	// Logger also receives etcd's errors, and etcd's warnings at level debug.
	Logger *slog.Logger
}

const (
	dialTimeout = 10 * time.Second
	// aliveEvery is the interval of keepalive pings on an idle connection to an external etcd. A
	// connection without an answer for aliveTimeout is closed.
	aliveEvery   = 10 * time.Second
	aliveTimeout = 5 * time.Second
)

// Log is an open log. It is safe for concurrent use.
type Log struct {
	client *kubernetes.Client
	// sealer encrypts and decrypts values; raw reads and writes them in stored form.
	sealer       Sealer
	raw          clientv3.KV
	reencryption *Reencryption
	server       *embed.Etcd
	logger       *slog.Logger
	meter        *meter
	capacity     *Capacity
	continuity   *Continuity
	// copying is read-locked during a copy of the log, and locked during a defragmentation.
	copying sync.RWMutex
	still   standstill
	acked   acked
	copies  copies
}

// Open starts an embedded etcd, or connects to an external one, and waits until etcd is ready or the
// context ends.
func Open(ctx context.Context, config Config) (*Log, error) {
	l := &Log{logger: config.Logger, sealer: config.Sealer, capacity: &Capacity{history: newHistory(), embedded: len(config.Servers) == 0}, continuity: newContinuity()}
	l.reencryption = newReencryption(l)
	if l.sealer == nil {
		l.sealer = plain{}
	}
	if len(config.Servers) > 0 {
		return l, connect(ctx, l, config)
	}
	quota := cmp.Or(config.Quota, DefaultQuota)
	hard := hardQuota(config.DataDir, quota)
	server, client, err := startEmbedded(ctx, config, hard)
	if err != nil {
		return nil, err
	}
	l.server, l.client = server, wrap(client)
	l.meter = &meter{client: client, server: server, quota: quota, hardQuota: hard, logger: config.Logger}
	l.raw = sealClient(client, steadyKV{adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(server.Server)), &l.still, &l.acked}, l.sealer)
	if err := openCapacity(ctx, l); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// connect connects a log to an external etcd, and waits until it is ready: it may still be starting.
func connect(ctx context.Context, l *Log, config Config) error {
	servers := config.Servers
	secured, err := secure(config)
	if err != nil {
		return err
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: servers, Context: ctx, DialTimeout: dialTimeout, TLS: secured,
		DialKeepAliveTime: aliveEvery, DialKeepAliveTimeout: aliveTimeout,
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{Backoff: dialBackoff(), MinConnectTimeout: dialTimeout})},
		Logger:      etcdLogger(l.logger),
	})
	if err != nil {
		return fmt.Errorf("connect to etcd at %q: %w", servers, err)
	}
	l.client = wrap(c)
	l.meter = &meter{client: c, quota: config.Quota, logger: l.logger}
	l.raw = sealClient(c, clientv3.RetryKVClient(c), l.sealer)
	for logged := false; ; logged = true {
		trying, cancel := context.WithTimeout(ctx, dialTimeout)
		err := openCapacity(trying, l)
		cancel()
		if err == nil {
			return nil
		}
		if !logged {
			l.logger.Error("etcd can't be used yet, trying again", "servers", servers, "error", err)
		}
		select {
		case <-time.After(retryTail):
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("connect to etcd at %q: %w", servers, err), c.Close())
		}
	}
}

// secure returns the TLS configuration for an external etcd; nil if neither a CA nor a client
// certificate is configured.
func secure(config Config) (*tls.Config, error) {
	if config.CAFile == "" && config.CertFile == "" {
		return nil, nil
	}
	secured := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.CAFile != "" {
		pem, err := os.ReadFile(config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read etcd's authority: %w", err)
		}
		if secured.RootCAs = x509.NewCertPool(); !secured.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read etcd's authority: %q has no certificate", config.CAFile)
		}
	}
	if config.CertFile != "" {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(config.CertFile, config.KeyFile)
			return &pair, err
		}
		if _, err := load(nil); err != nil {
			return nil, fmt.Errorf("read the certificate for etcd: %w", err)
		}
		secured.GetClientCertificate = load
	}
	return secured, nil
}

// dialBackoff returns the backoff of attempts to connect. Its maximum is aliveTimeout; gRPC's default
// is two minutes.
func dialBackoff() backoff.Config {
	b := backoff.DefaultConfig
	b.MaxDelay = aliveTimeout
	return b
}

// openCapacity measures a log, and disarms an earlier alarm of etcd if there is room, so that etcd does
// not refuse the writes of a start.
func openCapacity(ctx context.Context, l *Log) error {
	size, err := l.meter.measure(ctx)
	if err != nil {
		return err
	}
	if done, err := l.meter.disarm(ctx, size); err != nil {
		return err
	} else if done {
		size.Alarm = false
	}
	l.capacity.room = newRoom(size.Quota, l.server == nil)
	l.capacity.history.bound(size.Quota / historyPart)
	l.capacity.room.end(size, false)
	return nil
}

func wrap(c *clientv3.Client) *kubernetes.Client {
	k := &kubernetes.Client{Client: c}
	k.Kubernetes = k
	return k
}

// Client returns the client for the registries of k8s.io/apiserver. It encrypts values that it
// writes, and decrypts values that it reads.
func (l *Log) Client() *kubernetes.Client { return l.client }

// Capacity returns the log's quota, and the use of it.
func (l *Log) Capacity() *Capacity { return l.capacity }

// Continuity returns whether the log is still the one from which the table was loaded.
func (l *Log) Continuity() *Continuity { return l.continuity }

// Reencryption returns the re-encryption of the log's values.
func (l *Log) Reencryption() *Reencryption { return l.reencryption }

// Close closes the client and stops an embedded etcd.
func (l *Log) Close() error {
	err := l.client.Close()
	if l.server != nil {
		l.server.Close()
		err = nil // closing the in-process client only cancels its context
	}
	return err
}

// Committed returns a revision that includes every write that any hub acknowledged before the call:
// the revision of a linearizable read, or the newest revision in a response of an embedded etcd. It
// returns an error if the log has lost revisions that it had before, and blocks while the tail
// checks that.
func (l *Log) Committed(ctx context.Context) (int64, error) {
	for {
		switch err := l.continuity.wait(ctx, true); {
		case errors.Is(err, errAnew):
		case err != nil:
			return 0, err
		case l.server != nil:
			return l.answered(ctx)
		default:
			return l.revision(ctx)
		}
	}
}

// errStopped is returned when the embedded etcd has stopped.
var errStopped = errors.New("etcd has stopped")

// answered returns the newest revision in a response of an embedded etcd. It makes no request; a
// linearizable read would take a round of raft.
func (l *Log) answered(ctx context.Context) (int64, error) {
	if err := l.still.enter(ctx); err != nil {
		return 0, fmt.Errorf("read the log's revision: %w", err)
	}
	defer l.still.leave()
	select {
	case <-l.server.Server.StoppingNotify():
		return 0, fmt.Errorf("read the log's revision: %w", errStopped)
	default:
	}
	generation, known := l.continuity.snapshot()
	rev := l.acked.rev.Load()
	if rev == 0 { // there was no request yet
		return l.revision(ctx)
	}
	return rev, l.continuity.verify(generation, known, rev)
}

// revision makes a linearizable read and returns its revision. Unlike Committed, it does not wait for
// the tail, which calls it to check whether the log is still the same.
func (l *Log) revision(ctx context.Context) (int64, error) {
	generation, known := l.continuity.snapshot()
	r, err := l.client.Client.Get(ctx, Prefix+key.Markers.Prefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("read the log's revision: %w", err)
	}
	return r.Header.Revision, l.continuity.verify(generation, known, r.Header.Revision)
}

// Begin writes the hub marker to a key that no other hub writes, and then allows use of the log
// again, as Continuity.Resume does. It returns a revision at which the marker exists. It returns ErrFull if
// etcd's quota is exhausted.
func (l *Log) Begin(ctx context.Context, k string, value []byte, losses int) (rev int64, err error) {
	if err := l.continuity.wait(ctx, false); err != nil {
		return 0, err
	}
	rev, _, err = putIf(ctx, l.client, k, value, 0)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return 0, fmt.Errorf("%w: %w", ErrFull, err)
	}
	if err != nil {
		return 0, err
	}
	l.continuity.Resume(losses)
	return rev, nil
}

// Put writes one key if modRev is its modification revision (0: if the key does not exist). rev is
// the revision of the write, or, if ok is false because the comparison failed, that of the log.
func (l *Log) Put(ctx context.Context, k string, value []byte, modRev int64) (rev int64, ok bool, err error) {
	if err := l.continuity.wait(ctx, true); err != nil {
		return 0, false, err
	}
	return putIf(ctx, l.client, k, value, modRev)
}

// putIf is Log.Put without waiting for the tail.
func putIf(ctx context.Context, client *kubernetes.Client, k string, value []byte, modRev int64) (rev int64, ok bool, err error) {
	r, err := client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(Prefix+k), "=", modRev)).
		Then(clientv3.OpPut(Prefix+k, string(value))).
		Commit()
	if err != nil {
		return 0, false, fmt.Errorf("write %q: %w", k, err)
	}
	return r.Header.Revision, r.Succeeded, nil
}
