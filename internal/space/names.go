package space

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// taken are the names that other kinds of a group have.
type taken struct{ resources, kinds sets.Set[string] }

func (t taken) add(names apiextensionsv1.CustomResourceDefinitionNames) {
	t.resources.Insert(names.Plural, names.Singular)
	t.resources.Insert(names.ShortNames...)
	t.kinds.Insert(names.Kind, names.ListKind)
}

// crdOutline is the part of a stored CRD that tells its names.
type crdOutline struct {
	Spec struct {
		Group string `json:"group"`
	} `json:"spec"`
	Status struct {
		AcceptedNames apiextensionsv1.CustomResourceDefinitionNames       `json:"acceptedNames"`
		Conditions    []apiextensionsv1.CustomResourceDefinitionCondition `json:"conditions"`
	} `json:"status"`
}

// namesTaken are the names in the CRD's group that it can't have: those of
// built-in kinds, and those that the space's other CRDs have been given.
func (s *Server) namesTaken(space key.Space, crd *apiextensionsv1.CustomResourceDefinition) taken {
	t := taken{resources: sets.New[string](), kinds: sets.New[string]()}
	for _, k := range s.config.Kinds.Builtin(key.Root).Kinds() {
		if k.GVR.Group == crd.Spec.Group {
			t.add(apiextensionsv1.CustomResourceDefinitionNames{
				Plural: k.GVR.Resource, Singular: k.Singular, ShortNames: k.ShortNames, Kind: k.GVK.Kind, ListKind: k.ListKind,
			})
		}
	}
	prefix := key.ResourcePrefix(space, key.CRDs)
	s.config.Table.Snapshot().Ascend(prefix, func(row *table.Row) bool {
		name := strings.TrimPrefix(row.Key, prefix)
		// A CRD is called RESOURCE.GROUP, so most need not be decoded.
		if name == crd.Name || !strings.HasSuffix(name, "."+crd.Spec.Group) {
			return true
		}
		var other crdOutline
		if json.Unmarshal(row.Value, &other) == nil && other.Spec.Group == crd.Spec.Group {
			t.add(other.Status.AcceptedNames)
		}
		return true
	})
	t.resources.Delete("")
	t.kinds.Delete("")
	return t
}

// acceptNames gives a CRD those names that it asks for and that are free, and establishes
// it once it has them all. The conditions are those of Kubernetes.
func acceptNames(crd *apiextensionsv1.CustomResourceDefinition, t taken, now time.Time) {
	want, have := crd.Spec.Names, &crd.Status.AcceptedNames
	if want.Singular == "" {
		want.Singular = strings.ToLower(want.Kind)
	}
	if want.ListKind == "" {
		want.ListKind = want.Kind + "List"
	}
	names := apiextensionsv1.CustomResourceDefinitionCondition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts", Message: "no conflicts found",
	}
	give := func(reason string, used sets.Set[string], want string, have *string) {
		if want != *have && used.Has(want) {
			names.Status, names.Reason, names.Message = apiextensionsv1.ConditionFalse, reason, fmt.Sprintf("%q is already in use", want)
			return
		}
		*have = want
	}
	give("PluralConflict", t.resources, want.Plural, &have.Plural)
	give("SingularConflict", t.resources, want.Singular, &have.Singular)
	if used := usedShortNames(want.ShortNames, have.ShortNames, t.resources); used != nil {
		names.Status, names.Reason, names.Message = apiextensionsv1.ConditionFalse, "ShortNamesConflict", used.Error()
	} else {
		have.ShortNames = slices.Clone(want.ShortNames)
	}
	give("KindConflict", t.kinds, want.Kind, &have.Kind)
	give("ListKindConflict", t.kinds, want.ListKind, &have.ListKind)
	have.Categories = slices.Clone(want.Categories)

	at := metav1.NewTime(now)
	setCondition(crd, at, names)
	switch {
	case names.Status == apiextensionsv1.ConditionTrue:
		setCondition(crd, at, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		})
	case !conditionTrue(crd.Status.Conditions, apiextensionsv1.Established):
		setCondition(crd, at, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
}

func usedShortNames(want, have []string, used sets.Set[string]) error {
	var all []error
	for _, name := range want {
		if used.Has(name) && !slices.Contains(have, name) {
			all = append(all, fmt.Errorf("%q is already in use", name))
		}
	}
	return errors.Join(all...)
}

// setCondition sets a condition. The time of the last transition stays if the status does
// not change.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time, c apiextensionsv1.CustomResourceDefinitionCondition) {
	c.LastTransitionTime = now
	for i, was := range crd.Status.Conditions {
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		crd.Status.Conditions[i] = c
		return
	}
	crd.Status.Conditions = append(crd.Status.Conditions, c)
}

func conditionTrue(conditions []apiextensionsv1.CustomResourceDefinitionCondition, t apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	return slices.ContainsFunc(conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == t && c.Status == apiextensionsv1.ConditionTrue
	})
}

// lockDefinitions returns when no other CRD of the space is being written by this process
// and the table shows all that were. done gives the lock back.
func (s *Server) lockDefinitions(ctx context.Context) (done func(), err error) {
	space, _ := SpaceFrom(ctx)
	done, err = s.definitions.acquire(ctx, space)
	if err != nil {
		return nil, fmt.Errorf("wait for other definitions to be written: %w", err)
	}
	if err := s.catchUp(ctx); err != nil {
		done()
		return nil, err
	}
	return done, nil
}

// catchUp waits until the table shows everything committed before the call.
func (s *Server) catchUp(ctx context.Context) error {
	r, err := s.client.KV.Get(ctx, s.config.Prefix+key.Markers.Prefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the log's revision: %w", err)
	}
	return s.config.Table.WaitFor(ctx, r.Header.Revision)
}
