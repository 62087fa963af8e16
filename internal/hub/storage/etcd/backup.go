package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

const (
	// memberName and memberURL name an embedded etcd, which listens nowhere, in its own
	// files.
	memberName = "hub"
	memberURL  = "http://localhost:2380"
	// clusterToken is etcd's default.
	clusterToken = "etcd-cluster"
	// RevisionBump is how many revisions a restored log skips: more than were written
	// since the backup, so that no revision means two things to a client.
	RevisionBump = 1_000_000_000
	// compactStep bounds a transaction of a compaction, in bytes.
	compactStep = 64 << 20
	// sector is the unit of size, in bytes, of an etcd snapshot without its checksum.
	sector = 512
)

// Backup writes a snapshot of the log at one revision, with a checksum at its end. Writes
// continue meanwhile. It fails with ErrGivenUp when a write waits for room, unless the log
// was already full when it began: then giving up makes no room.
func (l *Log) Backup(ctx context.Context, to io.Writer) error {
	done := func() {}
	if _, full, _ := l.room.state(); !full {
		ctx, done = l.copies.begin(ctx)
	}
	defer done()
	from, w := io.Pipe()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		// A defragmentation would wait for the end of the copy, and all writes for that.
		l.copying.RLock()
		defer l.copying.RUnlock()
		_ = w.CloseWithError(l.copyTo(ctx, w)) // always nil
	}()
	// When ctx ends, etcd frees what it keeps for the copy at once, even if nobody reads.
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) }) // as above
	defer stop()
	_, err := io.Copy(to, from)
	_ = from.Close() // as above; it ends the copying if not all was read
	<-copied
	if err == nil {
		return nil
	}
	return fmt.Errorf("copy the log: %w", err)
}

func (l *Log) copyTo(ctx context.Context, to io.Writer) error {
	if l.server != nil {
		return l.copyBackend(to)
	}
	from, err := l.client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("make a snapshot: %w", err)
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, from.Close())
}

// copyBackend writes what an embedded etcd would send.
func (l *Log) copyBackend(to io.Writer) error {
	from, sum := l.server.Server.Backend().Snapshot(), sha256.New()
	_, err := from.WriteTo(io.MultiWriter(to, sum))
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

// CheckBackup reads a backup and fails if it is truncated or damaged.
func CheckBackup(from io.ReadSeeker) error {
	size, err := from.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	if size%sector != sha256.Size || size <= sha256.Size {
		return fmt.Errorf("the backup is not whole: %d bytes without a checksum at their end", size)
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, from, size-sha256.Size); err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	var want [sha256.Size]byte
	if _, err := io.ReadFull(from, want[:]); err != nil {
		return fmt.Errorf("read the backup: %w", err)
	}
	if [sha256.Size]byte(sum.Sum(nil)) != want {
		return errors.New("the backup is damaged: its checksum does not match")
	}
	return nil
}

// compactFile rewrites a bbolt file without its free pages, which may still hold values
// from before they were deleted or encrypted.
func compactFile(name string) (err error) {
	from, err := bolt.Open(name, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("open %q: %w", name, err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := bolt.Open(name+".compact", 0o600, nil)
	if err != nil {
		return fmt.Errorf("create a file beside %q: %w", name, err)
	}
	if err := errors.Join(bolt.Compact(to, from, compactStep), to.Close()); err != nil {
		return fmt.Errorf("compact %q: %w", name, err)
	}
	return os.Rename(name+".compact", name)
}

// Restore creates the embedded log of a data directory, which must have none, from a
// backup. A restore that is interrupted leaves none.
func Restore(file, dataDir string, logger *slog.Logger) (err error) {
	lock, err := LockDir(dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	dir := filepath.Join(dataDir, "etcd")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("%q already exists: move it away first", dir), err)
	}
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	if err := errors.Join(CheckBackup(f), f.Close()); err != nil {
		return err
	}
	part := dir + ".restoring"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("remove what another restore has left: %w", err)
	}
	if err := snapshot.NewV3(etcdLogger(logger)).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: part, Name: memberName,
		PeerURLs: []string{memberURL}, InitialCluster: memberName + "=" + memberURL, InitialClusterToken: clusterToken,
		RevisionBump: RevisionBump, MarkCompacted: true,
	}); err != nil {
		return fmt.Errorf("restore the log from %q: %w", file, err)
	}
	if err := compactFile(filepath.Join(part, "member", "snap", "db")); err != nil {
		return fmt.Errorf("restore the log: %w", err)
	}
	if err := os.Rename(part, dir); err != nil {
		return fmt.Errorf("restore the log: %w", err)
	}
	return atomicfile.SyncDir(dataDir)
}
