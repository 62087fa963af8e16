package read

import (
	"bytes"
	"io"
)

// pieceBytes is the size of one write of a list. Each write costs an HTTP/2 frame and a TLS record,
// and most items have only a few KB.
const pieceBytes = 64 << 10

// pieces buffers all writes but the first, by which the response writer recognizes a stream that
// it may compress.
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

// flush writes the buffer.
func (p *pieces) flush() error {
	if p.buffer.Len() == 0 {
		return nil
	}
	_, err := p.to.Write(p.buffer.Bytes())
	p.buffer.Reset()
	return err
}
