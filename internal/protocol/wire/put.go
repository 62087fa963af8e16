package wire

import (
	"encoding/json"
	"io"
)

// WritePut writes the line of a frame with a put. The result equals that of an Encoder, with the
// object last and unchanged. An Encoder would parse the object's JSON again for each location.
func WritePut(w io.Writer, p *Put) error {
	head, err := json.Marshal(struct {
		*Put
		Object *struct{} `json:"object,omitempty"` // replaces Put.Object
	}{Put: p})
	if err != nil {
		return err
	}
	for _, piece := range [][]byte{[]byte(`{"put":`), head[:len(head)-1], []byte(`,"object":`), p.Object, []byte("}}\n")} {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}
