package wire

import (
	"encoding/json"
	"io"
)

// WritePut writes the line of a frame that puts an object. It says what an Encoder would, with
// the object last and as it is: that is JSON already, which an Encoder would read once more for
// each location that gets it.
func WritePut(w io.Writer, p *Put) error {
	head, err := json.Marshal(struct {
		*Put
		Object *struct{} `json:"object,omitempty"` // in the place of that of Put
	}{Put: p})
	if err != nil {
		return err
	}
	for _, part := range [][]byte{[]byte(`{"put":`), head[:len(head)-1], []byte(`,"object":`), p.Object, []byte("}}\n")} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}
