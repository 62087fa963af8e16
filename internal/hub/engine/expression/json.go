package expression

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode decodes JSON; numbers stay as they are written.
func Decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// Encode is canonical JSON of what Decode gives, or of a type of which all can be encoded.
func Encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // there is nothing in it that can't be encoded
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
