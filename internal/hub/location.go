package hub

import (
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/store"
)

// tokenHandler makes a join token for a location, which replaces the one before.
func (h *Hub) tokenHandler(l key.Location, verb string) (http.HandlerFunc, error) {
	if verb != "create" {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: key.Locations.Group, Resource: "locations/token"}, verb)
	}
	uid, _, err := h.agents.Settings(l)
	if err != nil {
		return nil, err
	}
	return func(w http.ResponseWriter, r *http.Request) {
		join, err := h.makeToken(r, l, uid)
		if err != nil {
			respond.Error(w, r, err)
			return
		}
		respond.JSON(w, v1alpha1.LocationToken{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "LocationToken"},
			ObjectMeta: metav1.ObjectMeta{Name: string(l)},
			Status:     v1alpha1.LocationTokenStatus{Token: join},
		})
	}, nil
}

// makeToken makes a join token. A dry run makes none: one that is not stored is not
// valid.
func (h *Hub) makeToken(r *http.Request, l key.Location, uid string) (join string, err error) {
	options := metav1.CreateOptions{DryRun: r.URL.Query()["dryRun"]}
	if problems := validation.ValidateCreateOptions(&options); len(problems) > 0 {
		return "", apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("CreateOptions").GroupKind(), "", problems)
	}
	if len(options.DryRun) > 0 {
		return "", nil
	}
	token, enrolment, err := enroll.NewToken(l, uid, h.config.Now())
	if err != nil {
		return "", err
	}
	rev, err := h.log.Write(r.Context(), []store.Op{{Key: key.Enrolment(l), Value: enrolment}})
	if err != nil {
		return "", err
	}
	// Agents are authenticated by the table, and the token must be valid at once.
	if err := h.table.WaitFor(r.Context(), rev); err != nil {
		return "", err
	}
	return h.joinOf(l, token)
}
