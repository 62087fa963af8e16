package store

import (
	"bytes"
	"encoding/json"
	"fmt"

	"orrery.dev/orrery/internal/protocol/wire"
)

// Live is what was last seen of an object at the target, as far as it is reported.
type Live struct {
	// UID and Generation are those of the object as it was seen.
	UID        string      `json:"uid,omitempty"`
	Generation int64       `json:"gen,omitempty"`
	Health     wire.Health `json:"health,omitempty"`
	Note       string      `json:"note,omitempty"`
	// Wanted and Status are there if the policy asks for the status.
	Wanted *wire.Wanted `json:"wanted,omitempty"`
	Status []byte       `json:"-"`
}

// livePrefix begins what is stored of a Live: no JSON does. An older agent stored the status
// alone.
const livePrefix = 0x01

// encode makes the stored form: the prefix, all but the status as one line of JSON, and the
// status.
func (l *Live) encode() ([]byte, error) {
	head, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode what was seen: %w", err)
	}
	b := make([]byte, 0, len(head)+len(l.Status)+2)
	b = append(append(append(b, livePrefix), head...), '\n')
	return append(b, l.Status...), nil
}

// decodeLive reads what encode has made, or an older agent; it keeps nothing of b.
func decodeLive(b []byte) (*Live, error) {
	rest, ok := bytes.CutPrefix(b, []byte{livePrefix})
	if !ok {
		return &Live{Status: bytes.Clone(b)}, nil
	}
	var l Live
	head, status, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(head, &l); err != nil {
		return nil, fmt.Errorf("decode what was seen: %w", err)
	}
	l.Status = bytes.Clone(status)
	return &l, nil
}
