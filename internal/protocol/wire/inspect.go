package wire

import "encoding/json"

// MaxInspectResponse is the maximum size of an InspectResponse body, in bytes.
const MaxInspectResponse = 1 << 20

// Masked replaces a value of a Secret in an InspectResponse body. MaskedBefore and MaskedAfter replace two
// values of one name that differ.
const (
	Masked       = "***"
	MaskedBefore = "*** (before)"
	MaskedAfter  = "*** (after)"
)

// IsMask reports whether a value replaces one of a Secret.
func IsMask(value string) bool {
	return value == Masked || value == MaskedBefore || value == MaskedAfter
}

// InspectRequest requests the present object in the cluster, and the result of the next apply, for an object
// of the location. It is sent to agents with the capability Inspects. It is not part of the content,
// and losing it changes nothing.
type InspectRequest struct {
	// ID identifies the request. It is random, so that only the receiver of the request can
	// respond.
	ID string `json:"id"`
	// Key is the key of the object, as in a Put.
	Key string `json:"key"`
	// All also requests the values of other owners in the object.
	All bool `json:"all,omitempty"`
}

// InspectResponse is the body of the response to an InspectRequest.
type InspectResponse struct {
	// Digest is the digest of the rendering that Desired was created from, zero if there is none.
	Digest Sum `json:"digest"`
	// Live is the object in the cluster, nil if there is none. Desired is the result of the next
	// apply, nil if the object is not desired. Both have the object's name in the space, and no
	// status. Values of Secrets are masked.
	Live    json.RawMessage `json:"live,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Reason, a constant of the API, and Message explain why the agent can't return the object.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}
