package credentials

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/auth"
	"orrery.dev/orrery/internal/hub/auth/enroll"
	"orrery.dev/orrery/internal/hub/requestbody"
	"orrery.dev/orrery/internal/hub/respond"
	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// joinLife is the default lifetime of a join token, and maxJoinLife the maximum.
	joinLife    = 24 * time.Hour
	maxJoinLife = 365 * 24 * time.Hour
)

// Joins serves the join tokens of locations, a subresource of Locations.
type Joins struct {
	// Enrolments stores the join tokens.
	Enrolments *auth.Enrolments
	// UID returns the UID of a location; it fails if the location does not exist.
	UID func(key.Location) (string, error)
	// Text returns a token together with the endpoints of the hub.
	Text func(l key.Location, token string) (string, error)
}

// Handler returns the handler of a verb: "create" creates a join token, which replaces the previous
// one; "delete" revokes all credentials of the location's agents.
func (j Joins) Handler(l key.Location, verb string) (http.HandlerFunc, error) {
	uid, err := j.UID(l)
	if err != nil {
		return nil, err
	}
	serve := map[string]func(*http.Request, key.Location, string) (any, error){
		"create": j.create, "delete": j.revoke,
	}[verb]
	if serve == nil {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: key.Locations.Group, Resource: "locations/token"}, verb)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := serve(r, l, uid)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		respond.JSON(w, answer)
	}, nil
}

// create creates a join token. A dry run returns none, since a token that is not stored is not
// valid.
func (j Joins) create(r *http.Request, l key.Location, uid string) (any, error) {
	options := metav1.CreateOptions{DryRun: r.URL.Query()["dryRun"]}
	if problems := validation.ValidateCreateOptions(&options); len(problems) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("CreateOptions").GroupKind(), "", problems)
	}
	var body v1alpha1.LocationToken
	if err := requestbody.Decode(r, requestbody.Limits{Bytes: maxBody}, &body); err != nil && !errors.Is(err, io.EOF) {
		return nil, respond.BadBody(err, "decode the LocationToken")
	}
	made := v1alpha1.LocationToken{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LocationToken"},
		ObjectMeta: metav1.ObjectMeta{Name: string(l)}, Spec: body.Spec,
	}
	valid := joinLife
	if s := body.Spec.ExpirationSeconds; s != nil {
		if *s < 1 || *s > int64(maxJoinLife/time.Second) {
			return nil, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("LocationToken").GroupKind(), string(l), field.ErrorList{
				field.Invalid(field.NewPath("spec", "expirationSeconds"), *s, "must be from 1 to 31536000, which is a year"),
			})
		}
		valid = time.Duration(*s) * time.Second
	}
	shard := int(cmp.Or(body.Spec.Shard, 1))
	if shard < 1 || shard > key.MaxShards {
		return nil, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("LocationToken").GroupKind(), string(l), field.ErrorList{
			field.Invalid(field.NewPath("spec", "shard"), shard, fmt.Sprintf("must be from 1 to %d", key.MaxShards)),
		})
	}
	if len(options.DryRun) > 0 {
		return made, nil
	}
	if body.Spec.Readmit {
		return made, j.readmit(r, l, shard, uid)
	}
	token, expires, err := j.Enrolments.NewToken(r.Context(), l, shard, uid, valid)
	if err != nil {
		return nil, err
	}
	if made.Status.Token, err = j.Text(l, token); err != nil {
		return nil, err
	}
	made.Status.ExpirationTimestamp = metav1.NewTime(expires)
	return made, nil
}

// readmit admits the agent again that is locked out because it has used a renewed credential.
func (j Joins) readmit(r *http.Request, l key.Location, shard int, uid string) error {
	err := j.Enrolments.Readmit(r.Context(), l, shard, uid, asker(r))
	if errors.Is(err, enroll.ErrNoReuse) {
		return apierrors.NewConflict(schema.GroupResource{Group: key.Locations.Group, Resource: "locations/token"}, string(l), err)
	}
	return err
}

// asker returns the name of the user of a request.
func asker(r *http.Request) string {
	name := ""
	if u, ok := request.UserFrom(r.Context()); ok {
		name = u.GetName()
	}
	return cmp.Or(name, "an unknown user")
}

// revoke revokes all credentials and join tokens of the location's agents.
func (j Joins) revoke(r *http.Request, l key.Location, uid string) (any, error) {
	options := metav1.DeleteOptions{DryRun: r.URL.Query()["dryRun"]}
	if problems := validation.ValidateDeleteOptions(&options); len(problems) > 0 {
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("DeleteOptions").GroupKind(), "", problems)
	}
	status := metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: string(l), Group: key.Locations.Group, Kind: "locations/token"},
	}
	if len(options.DryRun) > 0 {
		return status, nil
	}
	return status, j.Enrolments.Revoke(r.Context(), l, uid, asker(r))
}
