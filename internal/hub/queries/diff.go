package queries

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/engine/objectstate"
	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Diff is the response to GET /ask/v1/spaces/NAME/diff?object=PATH&location=L[&all=true]: the
// object at a location, and the result of its next apply. Values of Secrets are masked, so that
// only differences are visible.
type Diff struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object   string       `json:"object"`
	Location key.Location `json:"location"`
	// Live is the object in the cluster, and Desired the result of the next apply; both may be
	// absent.
	Live    json.RawMessage `json:"live,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Remarks are further information for users.
	Remarks []string `json:"notes,omitempty"`
}

// liveReader reads live objects from the agents of locations. The user must have the rights before the
// request to the agent, and after it. It is safe for concurrent use.
type liveReader struct {
	table   *table.Table
	digest  objectstate.Digest
	inspect func(ctx context.Context, l key.Location, o key.Object, all bool) (wire.InspectResponse, error)
}

// serve responds with a Diff. It waits for the location's agent.
func (v *liveReader) serve(w http.ResponseWriter, r *http.Request, rights *rights, known existence) {
	o, err := key.ParseIn(rights.space, r.URL.Query().Get("object"))
	if err != nil {
		respond.Error(w, r, respond.BadRequest("%v", err))
		return
	}
	l := key.Location(r.URL.Query().Get("location"))
	if err := cmp.Or(rights.checkInspect(o, l), known.object(r.Context(), o)); err != nil {
		respond.Error(w, r, err)
		return
	}
	answer, err := v.diff(r.Context(), o, l, r.URL.Query().Get("all") == "true")
	if err == nil {
		err = rights.checkInspect(o, l) // the rights may have been revoked while the agent responded
	}
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.JSON(w, answer)
}

// checkInspect fails if the reader may not read the live object at a location.
func (r *rights) checkInspect(o key.Object, l key.Location) error {
	if err := r.gets(o); err != nil {
		return err
	}
	subresources := []string{auth.LiveSubresource}
	if o.Resource.Concealed() {
		subresources = append(subresources, auth.LiveSecretsSubresource)
	}
	for _, sub := range subresources {
		if !r.mayLook(l, sub) {
			return apierrors.NewForbidden(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource + "/" + sub}, string(l),
				errors.New("it takes the right to get that"))
		}
	}
	return nil
}

func (v *liveReader) diff(ctx context.Context, o key.Object, l key.Location, all bool) (answer Diff, err error) {
	state := v.table.Snapshot()
	row := state.Get(o.Key())
	_, p, assigned := placeOf(row, l)
	if _, left := leftStatus(state, o, l, false); !assigned && !left {
		return answer, refusedLook(o, l, v1alpha1.ReasonNotPlaced, "the object is not placed there; orrery why shows the reason")
	}
	if assigned && p.Owner != "" {
		return answer, refusedLook(o, l, v1alpha1.ReasonOtherSpace, wire.OtherSpace)
	}
	inspected, err := v.inspect(ctx, l, o, all)
	switch {
	case err != nil:
		return answer, err
	case inspected.Reason != "":
		return answer, refusedLook(o, l, inspected.Reason, inspected.Message)
	}
	answer = Diff{Object: o.Identity.String(), Location: l, Live: inspected.Live, Desired: inspected.Desired}
	if inspected.Message != "" {
		answer.Remarks = append(answer.Remarks, inspected.Message)
	}
	if remark := v.lag(row, p, assigned, inspected); remark != "" {
		answer.Remarks = append(answer.Remarks, remark)
	}
	return answer, nil
}

// lag describes in what way the location works with an older object than the desired one; empty if
// it does not.
func (v *liveReader) lag(row *table.Row, p placement.Place, assigned bool, inspected wire.InspectResponse) string {
	if !assigned {
		if inspected.Live == nil {
			return ""
		}
		return "it is no longer assigned to the location, which has yet to remove it, or keeps it"
	}
	d := objectstate.DesiredOf(v.digest, row, p)
	switch {
	case d.Held != "":
		return fmt.Sprintf("the location keeps what it has, and this is what it got last: %s: %s", d.HeldFor, d.Held)
	case inspected.Digest != d.Digest:
		return "the location has not received the last change yet"
	}
	return ""
}

// refusedLook returns the error for an object that can't be returned.
func refusedLook(o key.Object, l key.Location, reason, message string) error {
	code := http.StatusBadGateway // refused by the cluster
	switch reason {
	case v1alpha1.ReasonNotPlaced:
		code = http.StatusNotFound
	case v1alpha1.ReasonOtherSpace, v1alpha1.ReasonExists:
		code = http.StatusConflict
	case v1alpha1.ReasonTooLarge:
		code = http.StatusUnprocessableEntity
	}
	text := fmt.Sprintf("%s at location %q: %s", o.Identity, l, reason)
	if message != "" {
		text += ": " + message
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: int32(code), Reason: metav1.StatusReason(reason), Message: text,
		Details: &metav1.StatusDetails{Group: o.APIGroup(), Kind: o.Resource.Resource, Name: o.Name},
	}}
}
