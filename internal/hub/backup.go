package hub

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
)

const (
	// partTimeout is how long a client may take to read one part of a backup.
	partTimeout = time.Minute
	// backupTimeout bounds a whole backup: etcd keeps the state that it copies until then.
	backupTimeout = time.Hour
)

// BackupError is the trailer with the reason why a backup ended early. For a client that does not accept
// trailers the connection is closed instead.
const BackupError = "Orrery-Backup-Error"

// backups serves copies of the log.
type backups struct {
	log    *etcd.Log
	table  *table.Table
	logger *slog.Logger
	// one is held while a copy is made.
	one sync.Mutex
}

// ServeHTTP sends a snapshot of the log, to one client at a time. It ends with a
// checksum, so one that breaks off is recognized.
func (b *backups) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		respond.Error(w, r, respond.Unrouted(http.StatusMethodNotAllowed))
		return
	}
	if !b.one.TryLock() {
		respond.Error(w, r, apierrors.NewTooManyRequests("another backup is being made", 10))
		return
	}
	defer b.one.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	ctx := r.Context()
	out := &patientWriter{
		w: w, control: http.NewResponseController(w), end: time.Now().Add(backupTimeout),
		allowed: func() error { return auth.Confirm(ctx, b.table) },
	}
	if err := b.log.Backup(ctx, out); err != nil {
		b.logger.Warn("backup ended", "error", err)
		if !out.begun {
			respond.Error(w, r, err)
			return
		}
		if r.Header.Get("TE") == "trailers" {
			w.Header().Set(http.TrailerPrefix+BackupError, err.Error())
			return
		}
		panic(http.ErrAbortHandler) // a truncated backup must not look complete
	}
}

// patientWriter gives a client partTimeout for each part, but no longer than end in all.
type patientWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	end     time.Time
	begun   bool
	// allowed fails once the client may not have the rest.
	allowed func() error
}

func (p *patientWriter) Write(b []byte) (int, error) {
	now := time.Now()
	if now.After(p.end) {
		return 0, errors.New("the backup timed out: the client reads too slowly")
	}
	if err := p.allowed(); err != nil {
		return 0, err
	}
	// A writer without deadlines, as in tests, goes without.
	_ = p.control.SetWriteDeadline(now.Add(partTimeout))
	p.begun = true
	return p.w.Write(b)
}
