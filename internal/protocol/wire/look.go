package wire

import "encoding/json"

// MaxLooked bounds the body of an answer to a Look, in bytes.
const MaxLooked = 1 << 20

// Masked stands for a value of a Secret in the answer to a Look. MaskedBefore and
// MaskedAfter stand for two of one name that differ.
const (
	Masked       = "***"
	MaskedBefore = "*** (before)"
	MaskedAfter  = "*** (after)"
)

// IsMask says whether a value stands for one of a Secret.
func IsMask(value string) bool {
	return value == Masked || value == MaskedBefore || value == MaskedAfter
}

// Look asks the agent of a session what is at the target in the place of an object of the
// location's. It is sent to agents that announce Looks. It is no part of the content, and
// neither its answer nor its loss changes anything.
type Look struct {
	// ID names the question, by chance, so that nobody can answer who was not asked.
	ID string `json:"id"`
	// Key is that of the object, as in a Put.
	Key string `json:"key"`
	// All asks for the values of others in the object, too.
	All bool `json:"all,omitempty"`
}

// Looked is the body by which an agent answers a Look.
type Looked struct {
	// Digest is that of the rendering that Desired was made by, zero if there is none.
	Digest Sum `json:"digest"`
	// Live is the object at the target, nil if there is none; Desired what the next apply
	// would make of it, nil if it is not desired. Both name it as the space does, and have no
	// status. Values of Secrets are masked.
	Live    json.RawMessage `json:"live,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Reason, a constant of the API, and Message say why the agent does not tell.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
