package read

import (
	"bytes"
	"io"
)

// pieceBytes is how much of a list is written at once: each write costs a frame of HTTP/2
// and a record of TLS, and most items are smaller than a few KB.
const pieceBytes = 64 << 10

// pieces collects writes, except for the first one, by which the response writer recognizes
// a stream that it may compress.
type pieces struct {
	to     io.Writer
	begun  bool
	buffer *bytes.Buffer
}

func (p *pieces) Write(b []byte) (int, error) {
	if !p.begun {
		p.begun = true
		return p.to.Write(b)
	}
	if p.buffer.Len()+len(b) > pieceBytes {
		if err := p.flush(); err != nil {
			return 0, err
		}
	}
	if len(b) > pieceBytes {
		return p.to.Write(b)
	}
	return p.buffer.Write(b)
}

// flush writes what has been collected.
func (p *pieces) flush() error {
	if p.buffer.Len() == 0 {
		return nil
	}
	_, err := p.to.Write(p.buffer.Bytes())
	p.buffer.Reset()
	return err
}
