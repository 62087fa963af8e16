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
	"go.etcd.io/etcd/server/v3/storage/backend"

	"orrery.dev/orrery/internal/lib/atomicfile"
)

const (
	// memberName and memberURL identify the embedded etcd in its own files. It does not listen.
	memberName = "hub"
	memberURL  = "http://localhost:2380"
	// clusterToken is etcd's default.
	clusterToken = "etcd-cluster"
	// RevisionBump is added to the revision of a restored log. It exceeds the number of revisions
	// written since the backup, so that a client never sees one revision with two contents.
	RevisionBump = 1_000_000_000
	// compactStep is the maximum size in bytes of one transaction when a file is compacted.
	compactStep = 64 << 20
	// sector is the size in bytes of which an etcd snapshot, without its checksum, is a multiple.
	sector = 512
)

// Backup writes a snapshot of the log at one revision, followed by its checksum. Writes continue
// meanwhile. It returns ErrGivenUp when a write needs the space that the snapshot keeps, unless
// the log was already full at the start: then an abort would free no space.
func (l *Log) Backup(ctx context.Context, to io.Writer) error {
	done := func() {}
	if _, full, _ := l.capacity.room.state(); !full {
		ctx, done = l.copies.begin(ctx)
	}
	defer done()
	from, w := io.Pipe()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		// A defragmentation would wait for the end of the copy, and block all writes until then.
		l.copying.RLock()
		defer l.copying.RUnlock()
		_ = w.CloseWithError(copyTo(ctx, w, l)) // always nil
	}()
	// When ctx ends, etcd frees the space of the copy at once, even if the reader is blocked.
	stop := context.AfterFunc(ctx, func() { _ = w.CloseWithError(context.Cause(ctx)) }) // as above
	defer stop()
	_, err := io.Copy(to, from)
	_ = from.Close() // as above; it ends the copy if io.Copy failed
	<-copied
	if err == nil {
		return nil
	}
	return fmt.Errorf("copy the log: %w", err)
}

// copyTo writes a snapshot of a log.
func copyTo(ctx context.Context, to io.Writer, l *Log) error {
	if l.server != nil {
		return copyBackend(to, l.server.Server.Backend())
	}
	from, err := l.client.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("make a snapshot: %w", err)
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, from.Close())
}

// copyBackend writes a snapshot of an embedded etcd in the format that etcd's Snapshot request returns.
func copyBackend(to io.Writer, b backend.Backend) error {
	from, sum := b.Snapshot(), sha256.New()
	_, err := from.WriteTo(io.MultiWriter(to, sum))
	if err := errors.Join(err, from.Close()); err != nil {
		return err
	}
	_, err = to.Write(sum.Sum(nil))
	return err
}

// CheckBackup reads a backup and returns an error if it is truncated or damaged.
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

// compactFile rewrites a bbolt file without its free pages. Free pages may contain deleted values,
// and the plain text of values that were encrypted later.
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

// Restore creates the embedded log of a data directory from a backup. It returns an error if the
// directory already has a log. An interrupted restore leaves no log behind.
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
	temporary := dir + ".restoring"
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("remove the files of an interrupted restore: %w", err)
	}
	if err := snapshot.NewV3(etcdLogger(logger)).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: temporary, Name: memberName,
		PeerURLs: []string{memberURL}, InitialCluster: memberName + "=" + memberURL, InitialClusterToken: clusterToken,
		RevisionBump: RevisionBump, MarkCompacted: true,
	}); err != nil {
		return fmt.Errorf("restore the log from %q: %w", file, err)
	}
	if err := compactFile(filepath.Join(temporary, "member", "snap", "db")); err != nil {
		return fmt.Errorf("restore the log: %w", err)
	}
	if err := os.Rename(temporary, dir); err != nil {
		return fmt.Errorf("restore the log: %w", err)
	}
	return atomicfile.SyncDir(dataDir)
}
