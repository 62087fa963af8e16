package agentapi

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// sendTimeout is how long an agent may take to read a frame before its session is ended.
const sendTimeout = 60 * time.Second

// frameWriter writes frames to an agent.
type frameWriter struct {
	encoder *json.Encoder
	control *http.ResponseController
	// patience is for an agent that does not read; nil if the request as a whole has a
	// deadline.
	patience *readTimer
	// begun says that something was written, so the answer can no longer be an error.
	begun bool
	to    io.Writer
	// line is the memory of the last part, for the next.
	line []byte
}

// newSessionWriter writes frames of an answer that has no deadline as a whole. The caller
// must end it before the request ends.
func newSessionWriter(w http.ResponseWriter, sent func(bytes int)) *frameWriter {
	f := newFrameWriter(w, sent)
	f.patience = newReadTimer(sendTimeout, func() {
		// One that is over ends what is being written. A writer without deadlines, as in
		// tests, goes without.
		_ = f.control.SetWriteDeadline(time.Now().Add(-time.Second))
	})
	return f
}

// newFrameWriter writes frames, and tells sent how large they are.
func newFrameWriter(w http.ResponseWriter, sent func(bytes int)) *frameWriter {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	to := counting{w, sent}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return &frameWriter{encoder: encoder, control: http.NewResponseController(w), to: to}
}

// counting tells how much is written.
type counting struct {
	io.Writer
	wrote func(bytes int)
}

// Write implements io.Writer.
func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.wrote(n)
	return n, err
}

// blank sends an empty line, which is no frame but tells the agent that the hub is there.
func (f *frameWriter) blank() error {
	if err := f.write(func() error { _, err := io.WriteString(f.to, "\n"); return err }); err != nil {
		return err
	}
	return f.flush()
}

// add writes a frame; flush sends it on its way.
func (f *frameWriter) add(frame wire.Frame) error {
	return f.write(func() error {
		switch {
		case frame.Put != nil:
			return wire.WritePut(f.to, frame.Put)
		case frame.Part != nil:
			f.line = wire.AppendPart(f.line[:0], frame.Part)
			_, err := f.to.Write(f.line)
			return err
		default:
			return f.encoder.Encode(frame)
		}
	})
}

func (f *frameWriter) write(what func() error) error {
	f.begun = true
	if f.patience != nil {
		f.patience.begin()
	}
	if err := what(); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// flush sends what was added. From then on nothing is asked of the agent's patience: that is
// for it to read a frame, not for the hub to have another one.
func (f *frameWriter) flush() error {
	if err := f.control.Flush(); err != nil {
		return fmt.Errorf("send frames: %w", err)
	}
	if f.patience != nil {
		f.patience.pause()
	}
	return nil
}

func (f *frameWriter) send(frame wire.Frame) error {
	if err := f.add(frame); err != nil {
		return err
	}
	return f.flush()
}

// end ends the writer's patience.
func (f *frameWriter) end() {
	if f.patience != nil {
		f.patience.end()
	}
}

// readTimer calls a function when something that has begun takes too long. A deadline of
// net/http would do, but over HTTP/2 whatever moves one is a message to the goroutine of the
// connection, and of three for a frame each cost a turn of the processor. It is safe for
// concurrent use.
type readTimer struct {
	limit time.Duration
	over  func()

	mu    sync.Mutex
	timer *time.Timer
	// until is when it is over; zero: never.
	until time.Time
	ended bool
}

func newReadTimer(limit time.Duration, over func()) *readTimer {
	return &readTimer{limit: limit, over: over}
}

// begin gives all of the time, from now on.
func (t *readTimer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Now().Add(t.limit)
	if t.timer == nil {
		t.timer = time.AfterFunc(t.limit, t.look)
		return
	}
	t.timer.Reset(t.limit)
}

// look calls over if it is time: the timer may have fired just when it was stopped.
func (t *readTimer) look() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && !t.until.IsZero() && !time.Now().Before(t.until) {
		t.over()
	}
}

// pause says that nothing is waited for.
func (t *readTimer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// end is pause for good; over is not called any more once it returns.
func (t *readTimer) end() {
	t.pause()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}
