// Package pieces writes responses in large pieces, with buffers from a pool.
package pieces

import (
	"bytes"
	"io"
)

// Bytes is the size of one write of a list. Each write costs an HTTP/2 frame and a TLS record,
// and most items have only a few KB.
const Bytes = 64 << 10

// Writer buffers all writes but the first, by which the response writer recognizes a stream that
// it may compress.
type Writer struct {
	to     io.Writer
	begun  bool
	buffer *bytes.Buffer
}

// New returns a Writer with an empty buffer.
func New(to io.Writer, buffer *bytes.Buffer) *Writer { return &Writer{to: to, buffer: buffer} }

// Write implements io.Writer.
func (p *Writer) Write(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		return p.to.Write(b)
	}
	if p.buffer.Len()+len(b) > Bytes {
		if err := p.Flush(); err != nil {
			return 0, err
		}
	}
	if len(b) > Bytes {
		return p.to.Write(b)
	}
	return p.buffer.Write(b)
}

// Flush writes the buffer.
func (p *Writer) Flush() error {
	if p.buffer.Len() == 0 {
		return nil
	}
	_, err := p.to.Write(p.buffer.Bytes())
	p.buffer.Reset()
	return err
}

// Direct writes the buffer, and returns the writer behind it.
func (p *Writer) Direct() (io.Writer, error) { return p.to, p.Flush() }

// WriteAll writes segments, except empty ones.
func WriteAll(w io.Writer, segments ...[]byte) error {
	for _, p := range segments {
		if len(p) == 0 {
			continue
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}
