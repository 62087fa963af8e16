package hub

import (
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/internal/respond"
)

const (
	// partTimeout is how long a client may take for a part of a copy.
	partTimeout = time.Minute
	// backupTimeout bounds how long a copy may take: etcd keeps what it is about.
	backupTimeout = time.Hour
)

// BackupError is the trailer that says why a backup has ended before it was whole, to a
// client that takes trailers. To any other one the connection breaks off.
const BackupError = "Orrery-Backup-Error"

// serveBackup sends a snapshot of the log, one at a time. Its end has a checksum: what
// breaks off before is no backup.
func (h *Hub) serveBackup(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		respond.Error(w, r, respond.Unrouted(http.StatusMethodNotAllowed))
		return
	}
	if !h.copying.TryLock() {
		respond.Error(w, r, apierrors.NewTooManyRequests("another backup is being made", 10))
		return
	}
	defer h.copying.Unlock()
	w.Header().Set("Content-Type", "application/octet-stream")
	out := &patientWriter{w: w, control: http.NewResponseController(w), end: time.Now().Add(backupTimeout)}
	if err := h.log.Backup(r.Context(), out); err != nil {
		h.config.Logger.Warn("backup ended", "error", err)
		if !out.begun {
			respond.Error(w, r, err)
			return
		}
		if r.Header.Get("TE") == "trailers" {
			w.Header().Set(http.TrailerPrefix+BackupError, err.Error())
			return
		}
		panic(http.ErrAbortHandler) // the client is to see that this is not the end
	}
}

// patientWriter lets a client take its time for each part, but not for all of it.
type patientWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	end     time.Time
	begun   bool
}

func (p *patientWriter) Write(b []byte) (int, error) {
	now := time.Now()
	if now.After(p.end) {
		return 0, errors.New("the client has taken too long")
	}
	// What has no deadlines, as in tests, goes without.
	_ = p.control.SetWriteDeadline(now.Add(partTimeout))
	p.begun = true
	return p.w.Write(b)
}
