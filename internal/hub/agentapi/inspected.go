package agentapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// inspectError returns the error of an inspect request.
func inspectError(code int32, reason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: metav1.StatusReason(reason), Message: message,
	}}
}

// readInspected decodes the response of an agent about an object. It fails for another object, and for
// a Secret with unmasked values.
func readInspected(l key.Location, o key.Object, body []byte) (inspected wire.InspectResponse, err error) {
	bad := func(why error) (wire.InspectResponse, error) {
		return wire.InspectResponse{}, inspectError(http.StatusBadGateway, v1alpha1.ReasonBadAnswer, fmt.Sprintf("the agent of location %q does not answer what it was asked: %v", l, why))
	}
	if body == nil {
		return bad(fmt.Errorf("its answer can't be read, has more than %d bytes, or is nested deeper than %d levels", wire.MaxInspectResponse, maxInspectedDepth))
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&inspected); err != nil {
		return bad(errors.New("it is no JSON of the protocol"))
	}
	inspected.Reason, inspected.Message = wire.Clip(inspected.Reason, maxVersion), wire.Clip(inspected.Message, maxInspectMessage)
	if inspected.Reason != "" {
		return wire.InspectResponse{Reason: inspected.Reason, Message: inspected.Message}, nil
	}
	for _, side := range []json.RawMessage{inspected.Live, inspected.Desired} {
		if err := isOf(o, side); err != nil {
			return bad(err)
		}
	}
	return inspected, nil
}

// maxInspectedDepth allows objects of the maximum depth of reports.
const maxInspectedDepth = wire.MaxObjectDepth + 1

// maxInspectMessage limits the message of a response, in bytes.
const maxInspectMessage = 2048

// isOf fails if a response contains another object than the requested one.
func isOf(o key.Object, text json.RawMessage) error {
	if len(text) == 0 {
		return nil
	}
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Data       any `json:"data"`
		StringData any `json:"stringData"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return errors.New("it shows what is no object")
	}
	if group, _ := key.SplitVersion(object.APIVersion); group != o.APIGroup() || object.Kind == "" || object.Metadata.Name != o.Name || object.Metadata.Namespace != o.Namespace {
		return errors.New("it shows another object")
	}
	if o.Resource.Concealed() && !(masked(object.Data) && masked(object.StringData)) {
		return errors.New("it shows values of a Secret")
	}
	return nil
}

// masked reports whether all values of a Secret's field are masked.
func masked(field any) bool {
	switch field := field.(type) {
	case nil:
		return true
	case string:
		return field == wire.Masked
	case map[string]any:
		for _, v := range field {
			if text, ok := v.(string); !ok || !wire.IsMask(text) {
				return false
			}
		}
		return true
	}
	return false
}
