package etcd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// snapshotCount is after how many writes etcd makes a snapshot and drops its write-ahead
	// log. Each write may have more than a MiB.
	snapshotCount = 1000
	// overQuota is by how many bytes etcd's own quota is above the log's.
	overQuota = 64 << 20
	// catchUp is how many entries etcd keeps in memory for members that lag behind, of
	// which there are none, besides the 100 between two clearings; 0 would mean its default.
	// An entry is as large as its write.
	catchUp = 1
	// startTimeout bounds how long an embedded etcd may take to replay its log.
	startTimeout = 2 * time.Minute
)

// startEmbedded runs etcd in this process. It listens nowhere: the client
// calls it directly, so nobody else can reach the log.
func startEmbedded(ctx context.Context, config Config, quota int64) (*embed.Etcd, *clientv3.Client, error) {
	dir := filepath.Join(config.DataDir, "etcd")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the log's directory: %w", err)
	}
	c := embed.NewConfig()
	c.Name = memberName
	c.Dir = dir
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	c.ListenClientUrls, c.ListenPeerUrls, c.AdvertiseClientUrls = nil, nil, nil
	c.QuotaBackendBytes = quota
	c.MaxTxnOps = ownTxnOps
	c.SnapshotCount = snapshotCount
	c.SnapshotCatchUpEntries = catchUp
	c.UnsafeNoFsync = config.UnsafeNoFsync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(config.Logger))
	server, err := embed.StartEtcd(c)
	if err != nil {
		return nil, nil, fmt.Errorf("start etcd in %q: %w", dir, err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	select {
	case <-server.Server.ReadyNotify():
		return server, v3client.New(server.Server), nil
	case err = <-server.Err():
	case <-server.Server.StopNotify():
		err = errors.New("stopped")
	case <-ctx.Done():
		err = ctx.Err()
	}
	server.Close()
	return nil, nil, fmt.Errorf("start etcd in %q: %w", dir, err)
}

// hardQuota is the quota that etcd itself enforces, above the log's: its file may be larger
// for a moment, or because the quota was lowered. Log.Admit keeps the log below its quota;
// etcd would also refuse what a start writes, and the ends of deletions.
func hardQuota(dataDir string, quota int64) int64 {
	if file, err := os.Stat(filepath.Join(dataDir, "etcd", "member", "snap", "db")); err == nil {
		quota = max(quota, file.Size())
	}
	return quota + overQuota
}

// LockDir makes this process the only user of a data directory until it ends.
// The returned file holds the lock; keep it open.
func LockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("data directory %q is in use by another process", dir)
	}
	return f, nil
}

// etcdLogger logs etcd's errors as errors, and its warnings at level debug, since some come
// with every start.
func etcdLogger(logger *slog.Logger) *zap.Logger {
	logger = logger.With("from", "etcd")
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg", SkipLineEnding: true})
	core := func(at slog.Level, from zapcore.LevelEnabler) zapcore.Core {
		return zapcore.NewCore(encoder, zapcore.AddSync(slog.NewLogLogger(logger.Handler(), at).Writer()), from)
	}
	warnings := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l == zapcore.WarnLevel })
	return zap.New(zapcore.NewTee(core(slog.LevelDebug, warnings), core(slog.LevelError, zapcore.ErrorLevel)))
}
