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
	// snapshotCount is the number of writes after which etcd makes a snapshot and truncates its
	// write-ahead log. A write may be larger than 1 MiB.
	snapshotCount = 1000
	// overQuota is the number of bytes by which etcd's own quota exceeds that of the log.
	overQuota = 64 << 20
	// catchUp is the number of raft entries that etcd keeps in memory for lagging members, besides
	// the 100 between two clearings. There are no other members, but 0 would mean etcd's default.
	// An entry is as large as its write.
	catchUp = 1
	// startTimeout is the maximum duration of the start of an embedded etcd, which replays its log.
	startTimeout = 2 * time.Minute
)

// startEmbedded starts etcd in this process. It does not listen: the client calls it directly, so
// no other process can reach the log.
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

// hardQuota returns the quota that etcd itself enforces. It is above that of the log, because etcd's
// file can be larger for a moment, or because the quota was lowered. Log.Admit keeps the log below
// its quota. At its own quota, etcd would also refuse the writes of a start and of deletions.
func hardQuota(dataDir string, quota int64) int64 {
	if file, err := os.Stat(filepath.Join(dataDir, "etcd", "member", "snap", "db")); err == nil {
		quota = max(quota, file.Size())
	}
	return quota + overQuota
}

// LockDir takes an exclusive lock on a data directory, and returns an error if another process has
// it. The lock lasts until the returned file is closed or the process ends.
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

// etcdLogger logs etcd's errors as errors, and its warnings at level debug, since each start causes
// some.
func etcdLogger(logger *slog.Logger) *zap.Logger {
	logger = logger.With("from", "etcd")
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{MessageKey: "msg", SkipLineEnding: true})
	core := func(level slog.Level, enabler zapcore.LevelEnabler) zapcore.Core {
		return zapcore.NewCore(encoder, zapcore.AddSync(slog.NewLogLogger(logger.Handler(), level).Writer()), enabler)
	}
	warnings := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l == zapcore.WarnLevel })
	return zap.New(zapcore.NewTee(core(slog.LevelDebug, warnings), core(slog.LevelError, zapcore.ErrorLevel)))
}
