package queries

import (
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

// Diff answers GET /ask/v1/spaces/NAME/diff?object=PATH&location=L[&all=true]: what a
// location has of an object, and what its next apply would make of that. Values of Secrets
// are masked, so that only whether they differ is to be seen.
type Diff struct {
	// Object is GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object   string       `json:"object"`
	Location key.Location `json:"location"`
	// Live is what is there, and Desired what it is to be; either may be absent.
	Live    json.RawMessage `json:"live,omitempty"`
	Desired json.RawMessage `json:"desired,omitempty"`
	// Notes say what else there is to know.
	Notes []string `json:"notes,omitempty"`
}

// serveDiff answers what a location has of an object. It waits for the location's agent.
func (q *Server) serveDiff(w http.ResponseWriter, r *http.Request, rights *rights) {
	o, err := key.ParseIn(rights.space, r.URL.Query().Get("object"))
	if err != nil {
		respond.Error(w, r, respond.BadRequest("%v", err))
		return
	}
	l := key.Location(r.URL.Query().Get("location"))
	if err := rights.looks(o, l); err != nil {
		respond.Error(w, r, err)
		return
	}
	answer, err := q.diff(r.Context(), o, l, r.URL.Query().Get("all") == "true")
	if err == nil {
		err = rights.looks(o, l) // they may have been taken away while the agent was asked
	}
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	respond.JSON(w, answer)
}

// looks fails if the reader may not see how an object is at a location.
func (r *rights) looks(o key.Object, l key.Location) error {
	if err := r.gets(o); err != nil {
		return err
	}
	takes := []string{auth.LiveSubresource}
	if o.Resource.Concealed() {
		takes = append(takes, auth.LiveSecretsSubresource)
	}
	for _, sub := range takes {
		if !r.mayLook(l, sub) {
			return apierrors.NewForbidden(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource + "/" + sub}, string(l),
				errors.New("it takes the right to get that"))
		}
	}
	return nil
}

func (q *Server) diff(ctx context.Context, o key.Object, l key.Location, all bool) (answer Diff, err error) {
	state := q.config.Table.Snapshot()
	if err := q.known(state, o); err != nil {
		return answer, err
	}
	row := state.Get(o.Key())
	_, p, assigned := placeOf(row, l)
	if _, left := leftStatus(state, o, l, false); !assigned && !left {
		return answer, refusedLook(o, l, v1alpha1.ReasonNotPlaced, "it is not placed there; orrery why says why")
	}
	if assigned && p.Owner != "" {
		return answer, refusedLook(o, l, v1alpha1.ReasonOtherSpace, wire.OtherSpace)
	}
	looked, err := q.config.Look(ctx, l, o, all)
	switch {
	case err != nil:
		return answer, err
	case looked.Reason != "":
		return answer, refusedLook(o, l, looked.Reason, looked.Message)
	}
	answer = Diff{Object: o.Identity.String(), Location: l, Live: looked.Live, Desired: looked.Desired}
	if looked.Message != "" {
		answer.Notes = append(answer.Notes, looked.Message)
	}
	if note := q.lag(row, p, assigned, looked); note != "" {
		answer.Notes = append(answer.Notes, note)
	}
	return answer, nil
}

// lag says in what way the location goes by something else than what is desired now.
func (q *Server) lag(row *table.Row, p placement.Place, assigned bool, looked wire.Looked) string {
	if !assigned {
		if looked.Live == nil {
			return ""
		}
		return "it is no longer assigned to the location, which has yet to remove it, or keeps it"
	}
	d := objectstate.DesiredOf(q.config.Digest, row, p)
	switch {
	case d.Held != "":
		return fmt.Sprintf("the location keeps what it has, and this is what it got last: %s: %s", d.HeldFor, d.Held)
	case looked.Digest != d.Digest:
		return "the location has not heard of the last change yet"
	}
	return ""
}

// refusedLook is the error about an object of which nothing is told.
func refusedLook(o key.Object, l key.Location, reason, message string) error {
	code := http.StatusBadGateway // what its cluster has refused
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
