package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"orrery.dev/orrery/internal/protocol/wire"
)

// Live has the reported properties of an object at the cluster, as the agent last observed them.
type Live struct {
	// UID and Generation are those of the observed object.
	UID        string      `json:"uid,omitempty"`
	Generation int64       `json:"gen,omitempty"`
	Health     wire.Health `json:"health,omitempty"`
	Detail     string      `json:"note,omitempty"`
	// Diagnosis is why the object is not healthy, from the objects that it owns; nil if that is unknown.
	Diagnosis *Diagnosis `json:"diagnosis,omitempty"`
	// IsSuspect reports whether the object needs a diagnosis.
	IsSuspect bool `json:"suspect,omitempty"`
	// Wanted and Status are set if the policy returns the status.
	Wanted *wire.Wanted `json:"wanted,omitempty"`
	Status []byte       `json:"-"`
}

// Diagnosis is the reason why an object is not healthy.
type Diagnosis struct {
	Text string `json:"text"`
	// Subject identifies the problem: another text with the same subject is about the same one.
	Subject string `json:"subject,omitempty"`
	// Since is when the problem was first diagnosed without another diagnosis in between.
	Since time.Time `json:"since"`
	// Final reports that the object cannot become healthy without a change, or not in time.
	Final bool `json:"final,omitempty"`
	// Account is the ServiceAccount with whose rights it was read; empty: the agent's.
	Account string `json:"account,omitempty"`
}

// livePrefix begins the stored form of a Live. No JSON text begins with it: older agents stored the
// status alone.
const livePrefix = 0x01

// encode returns the stored form: the prefix, all but the status as one line of JSON, and the status.
func (l *Live) encode() ([]byte, error) {
	head, err := json.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("encode observed object: %w", err)
	}
	b := make([]byte, 0, len(head)+len(l.Status)+2)
	b = append(append(append(b, livePrefix), head...), '\n')
	return append(b, l.Status...), nil
}

// decodeLive decodes the stored form, also that of older agents. The result does not refer to b.
func decodeLive(b []byte) (*Live, error) {
	rest, ok := bytes.CutPrefix(b, []byte{livePrefix})
	if !ok {
		return &Live{Status: bytes.Clone(b)}, nil
	}
	var l Live
	head, status, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(head, &l); err != nil {
		return nil, fmt.Errorf("decode observed object: %w", err)
	}
	l.Status = bytes.Clone(status)
	return &l, nil
}
