package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/enroll"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/kinds"
	"orrery.dev/orrery/internal/respond"
	"orrery.dev/orrery/internal/store"
	"orrery.dev/orrery/internal/table"
	"orrery.dev/orrery/internal/view"
	"orrery.dev/orrery/internal/wire"
)

// defaultPruneMaxPercent is the default of spec.prune.maxPercent, for
// locations whose spec leaves prune out.
const defaultPruneMaxPercent = 30

// settings are what a location's agent is told of the location, and its UID. A
// location that is gone or going is not found.
func (h *Hub) settings(l key.Location) (uid string, s wire.Settings, err error) {
	row, _ := h.table.Get(l.Key())
	if row == nil || row.Meta.Deleting {
		return "", s, apierrors.NewNotFound(schema.GroupResource{Group: key.Locations.Group, Resource: key.Locations.Resource}, string(l))
	}
	var location v1alpha1.Location
	if err := json.Unmarshal(row.Value, &location); err != nil {
		return "", s, fmt.Errorf("decode location %q: %w", l, err)
	}
	s = wire.Settings{
		PruneMaxPercent: defaultPruneMaxPercent, HeartbeatSeconds: max(1, int(h.config.Heartbeat.Seconds())),
		Accept: location.Annotations[v1alpha1.AcceptAnnotation], Purge: location.Annotations[v1alpha1.PurgeAnnotation] == "true",
		Confirm: h.pruned.Confirmations(l),
	}
	if p := location.Spec.Prune.MaxPercent; p != nil {
		s.PruneMaxPercent = int(*p)
	}
	if d := location.Annotations[v1alpha1.ConfirmPruneAnnotation]; d != "" {
		s.Confirm = append([]wire.Confirmation{{Digest: d}}, s.Confirm...)
	}
	s.Halt = haltOf(&location)
	return row.Meta.UID, s, nil
}

// haltOf is why the agent of a location is to change nothing; empty: it works.
func haltOf(l *v1alpha1.Location) string {
	if l.Spec.Mapping == v1alpha1.MappingPaused {
		return "the location's mapping is Paused"
	}
	if c := meta.FindStatusCondition(l.Status.Conditions, v1alpha1.ConditionCompatible); c != nil && c.Status == metav1.ConditionFalse {
		return "the location is not compatible: " + cmp.Or(c.Message, c.Reason)
	}
	return ""
}

// tokenHandler makes a join token for a location and forgets the one before.
func (h *Hub) tokenHandler(l key.Location, verb string) (http.HandlerFunc, error) {
	if verb != "create" {
		return nil, apierrors.NewMethodNotSupported(schema.GroupResource{Group: key.Locations.Group, Resource: "locations/token"}, verb)
	}
	uid, _, err := h.settings(l)
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

// makeToken makes a join token; a dry run makes none, since one that is not kept is
// good for nothing.
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
	// Agents are known by the table: the token is to be good at once.
	if err := h.table.WaitFor(r.Context(), rev); err != nil {
		return "", err
	}
	return wire.Join{Hub: h.url, CA: string(h.ca.PEM()), Location: string(l), Token: token}.Encode(), nil
}

var _ renderer = (*Hub)(nil)

// traveller says what of a row travels. It depends on the resource alone, so
// that what travels is a function of the row.
func (h *Hub) traveller(row *table.Row) (view.Traveller, error) {
	o, err := key.ParseObject(row.Key)
	if err != nil {
		return nil, err
	}
	if kind, ok := h.registry.Builtin(key.Root).ForStorage(o.Resource); ok {
		return kind, nil
	}
	return kinds.AnyCustom{}, nil
}

// Render makes of a row what a location gets.
func (h *Hub) Render(row *table.Row, l key.Location) (view.Rendered, error) {
	t, err := h.traveller(row)
	if err != nil {
		return view.Rendered{}, err
	}
	return view.Render(t, row, l)
}

// Digest is the digest of what Render makes of a row.
func (h *Hub) Digest(row *table.Row, l key.Location) (wire.Sum, error) {
	t, err := h.traveller(row)
	if err != nil {
		return wire.Sum{}, err
	}
	return view.Digest(t, row, l)
}
