package audit

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

// sayEvery is the minimum interval between messages about lost events in the hub's log.
const sayEvery = time.Minute

// patient writes to a file and always reports success, so that a failure does not affect the
// request. It counts events that could not be written. It is safe for concurrent use.
type patient struct {
	to     io.Writer
	logger *slog.Logger

	mu   sync.Mutex
	lost int64
	// reported is the time of the last message; torn reports that the last line may be incomplete.
	reported time.Time
	torn     bool
}

// Write writes one event.
func (p *patient) Write(event []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := event
	if p.torn {
		line = append([]byte("\n"), event...)
	}
	_, err := p.to.Write(line)
	if p.torn = err != nil; !p.torn {
		return len(event), nil
	}
	p.lost++
	if time.Since(p.reported) >= sayEvery {
		p.reported = time.Now()
		p.logger.Error("events can't be written to the audit log; requests are served", "lost", p.lost, "error", err)
	}
	return len(event), nil
}

// count returns the number of lost events.
func (p *patient) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}
