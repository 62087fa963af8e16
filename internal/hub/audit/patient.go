package audit

import (
	"io"
	"log/slog"
	"sync"
	"time"
)

// sayEvery is how often the hub's log says at most that events can't be written.
const sayEvery = time.Minute

// patient writes to a file as long as that takes anything, and says of each event that it
// was written: one that was not is counted, and the request is served all the same. It is
// safe for concurrent use.
type patient struct {
	to     io.Writer
	logger *slog.Logger

	mu   sync.Mutex
	lost int64
	// said is when it was said last; torn says that the last line may have no end.
	said time.Time
	torn bool
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
	if time.Since(p.said) >= sayEvery {
		p.said = time.Now()
		p.logger.Error("events can't be written to the audit log; requests are served", "lost", p.lost, "error", err)
	}
	return len(event), nil
}

// count is how many events were lost.
func (p *patient) count() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}
