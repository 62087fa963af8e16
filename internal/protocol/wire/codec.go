package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the maximum length in bytes of one line of a body: the largest object that a space
// accepts, as JSON within JSON, with a margin.
const MaxLine = 4 << 20

// ErrLineTooLong is returned for a line longer than MaxLine.
var ErrLineTooLong = errors.New("line too long")

// Encoder writes one JSON value per line. It is for one goroutine.
type Encoder struct{ json *json.Encoder }

// NewEncoder returns an encoder that writes each value to w in one call.
func NewEncoder(w io.Writer) *Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // the object's bytes, which have a digest, must not change
	return &Encoder{json: e}
}

// Encode writes v and a line end.
func (e *Encoder) Encode(v any) error { return e.json.Encode(v) }

// Decoder reads one JSON value per line. It is for one goroutine.
type Decoder struct {
	r    *bufio.Reader
	line []byte
}

// NewDecoder returns a decoder that reads from r.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{r: bufio.NewReaderSize(r, 32<<10)}
}

// Decode reads the next line into v. It returns io.EOF after the last line,
// io.ErrUnexpectedEOF when the stream ends within a line, and ErrLineTooLong
// before it has read more than MaxLine of one line. What it stores in v does
// not share memory with the decoder.
func (d *Decoder) Decode(v any) error {
	for {
		line, err := d.next()
		if err != nil {
			return err
		}
		if len(line) == 0 {
			continue
		}
		if err := json.Unmarshal(line, v); err != nil {
			return fmt.Errorf("decode line: %w", err)
		}
		return nil
	}
}

// Buffered returns the number of bytes that can be read without blocking.
func (d *Decoder) Buffered() int { return d.r.Buffered() }

// next returns the next line without its end; it is valid until the next call.
func (d *Decoder) next() ([]byte, error) {
	chunk, err := d.r.ReadSlice('\n')
	if err == nil {
		return bytes.TrimSpace(chunk), nil
	}
	d.line = d.line[:0]
	for {
		d.line = append(d.line, chunk...)
		switch {
		case len(d.line) > MaxLine:
			return nil, ErrLineTooLong
		case err == nil:
			return bytes.TrimSpace(d.line), nil
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(d.line)) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		chunk, err = d.r.ReadSlice('\n')
	}
}
