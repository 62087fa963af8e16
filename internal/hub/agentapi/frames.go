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
	// readTimeout limits the time in which the agent must read a frame; nil if the request has
	// a deadline.
	readTimeout *readTimer
	// begun is set after the first write: the response can no longer be an error.
	begun bool
	to    io.Writer
	// line is a buffer for frames with a RangeDifference.
	line []byte
}

// newSessionWriter returns a writer of frames for a response without a deadline. The caller must end
// it before the request ends.
func newSessionWriter(w http.ResponseWriter, sent func(bytes int)) *frameWriter {
	f := newFrameWriter(w, sent)
	f.readTimeout = newReadTimer(sendTimeout, func() {
		// A deadline in the past ends a blocked write. Writers in tests have no deadlines.
		_ = f.control.SetWriteDeadline(time.Now().Add(-time.Second))
	})
	return f
}

// newFrameWriter returns a writer of frames, which calls sent with the size of each write.
func newFrameWriter(w http.ResponseWriter, sent func(bytes int)) *frameWriter {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set(wire.Header, wire.ProtocolVersion)
	to := counting{w, sent}
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return &frameWriter{encoder: encoder, control: http.NewResponseController(w), to: to}
}

// counting calls wrote with the size of each write.
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

// blank sends an empty line, which shows the agent that the hub is alive.
func (f *frameWriter) blank() error {
	if err := f.write(func() error { _, err := io.WriteString(f.to, "\n"); return err }); err != nil {
		return err
	}
	return f.flush()
}

// add writes a frame to the buffer of the connection; flush sends it.
func (f *frameWriter) add(frame wire.Frame) error {
	return f.write(func() error {
		switch {
		case frame.Put != nil:
			return wire.WritePut(f.to, frame.Put)
		case frame.RangeDifference != nil:
			f.line = wire.AppendRangeDifference(f.line[:0], frame.RangeDifference)
			_, err := f.to.Write(f.line)
			return err
		default:
			return f.encoder.Encode(frame)
		}
	})
}

func (f *frameWriter) write(what func() error) error {
	f.begun = true
	if f.readTimeout != nil {
		f.readTimeout.begin()
	}
	if err := what(); err != nil {
		return fmt.Errorf("send a frame: %w", err)
	}
	return nil
}

// flush sends the added frames, and stops the timeout: it limits the time in which the agent reads a
// frame, not the interval between frames.
func (f *frameWriter) flush() error {
	if err := f.control.Flush(); err != nil {
		return fmt.Errorf("send frames: %w", err)
	}
	if f.readTimeout != nil {
		f.readTimeout.pause()
	}
	return nil
}

func (f *frameWriter) send(frame wire.Frame) error {
	if err := f.add(frame); err != nil {
		return err
	}
	return f.flush()
}

// end stops the timeout.
func (f *frameWriter) end() {
	if f.readTimeout != nil {
		f.readTimeout.end()
	}
}

// readTimer calls a function when an operation takes too long. It replaces the deadlines of net/http:
// over HTTP/2, each change of a deadline wakes the goroutine of the connection, three times per
// frame. It is safe for concurrent use.
type readTimer struct {
	limit time.Duration
	over  func()

	mu    sync.Mutex
	timer *time.Timer
	// until is the end of the timeout; zero if it is stopped.
	until time.Time
	ended bool
}

func newReadTimer(limit time.Duration, over func()) *readTimer {
	return &readTimer{limit: limit, over: over}
}

// begin restarts the timeout.
func (t *readTimer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Now().Add(t.limit)
	if t.timer == nil {
		t.timer = time.AfterFunc(t.limit, t.check)
		return
	}
	t.timer.Reset(t.limit)
}

// check calls over if the timeout has expired: the timer may have fired while it was stopped.
func (t *readTimer) check() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && !t.until.IsZero() && !time.Now().Before(t.until) {
		t.over()
	}
}

// pause stops the timeout.
func (t *readTimer) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.until = time.Time{}
	if t.timer != nil {
		t.timer.Stop()
	}
}

// end stops the timeout for good; over is not called after it returns.
func (t *readTimer) end() {
	t.pause()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}
