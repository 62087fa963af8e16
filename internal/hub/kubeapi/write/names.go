package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/hub/kinds/binding"
	"orrery.dev/orrery/internal/hub/storage/etcd"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// taken are the used names of a group, with the object that uses each.
type taken struct{ resources, kinds map[string]string }

func (t taken) add(user string, names apiextensionsv1.CustomResourceDefinitionNames) {
	for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
		t.resources[name] = user
	}
	t.kinds[names.Kind], t.kinds[names.ListKind] = user, user
}

// namesTaken returns the names in a group that a definition of the space can't have: those of
// built-in kinds, and those of other CRDs and APIBindings.
func (s *Server) namesTaken(state table.Reader, space key.Space, group string, except key.Identity) taken {
	t := taken{resources: map[string]string{}, kinds: map[string]string{}}
	for _, k := range s.config.Kinds.Builtin(key.Root).Kinds() {
		if k.GVR.Group == group {
			t.add("a kind that is built in", apiextensionsv1.CustomResourceDefinitionNames{
				Plural: k.GVR.Resource, Singular: k.Singular, ShortNames: k.ShortNames, Kind: k.GVK.Kind, ListKind: k.ListKind,
			})
		}
	}
	prefix := key.ResourcePrefix(space, key.CRDs)
	state.Ascend(prefix, func(row *table.Row) bool {
		name := strings.TrimPrefix(row.Key, prefix)
		// A CRD is named RESOURCE.GROUP, so most need not be decoded.
		if except == (key.Identity{Resource: key.CRDs, Name: name}) || !strings.HasSuffix(name, "."+group) {
			return true
		}
		if gjson.GetBytes(row.Value, "spec.group").Str != group {
			return true
		}
		var names apiextensionsv1.CustomResourceDefinitionNames
		if accepted := gjson.GetBytes(row.Value, "status.acceptedNames"); json.Unmarshal([]byte(accepted.Raw), &names) == nil {
			t.add(fmt.Sprintf("CustomResourceDefinition %q", name), names)
		}
		return true
	})
	for _, b := range binding.InSpace(state, space) {
		if except == (key.Identity{Resource: key.APIBindings, Name: b.Name}) {
			continue
		}
		for _, resource := range b.Status.Resources {
			if resource.Group == group {
				t.add(fmt.Sprintf("APIBinding %q", b.Name), binding.Names(resource))
			}
		}
	}
	delete(t.resources, "")
	delete(t.kinds, "")
	return t
}

// acceptNames accepts the requested names of a CRD that are free, and establishes the CRD once it has
// all of them. The conditions are those of Kubernetes.
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
	give := func(reason string, used map[string]string, want string, have *string) {
		if _, ok := used[want]; ok && want != *have {
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

	transition := metav1.NewTime(now)
	setCondition(crd, transition, names)
	switch {
	case names.Status == apiextensionsv1.ConditionTrue:
		setCondition(crd, transition, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
			Reason: "InitialNamesAccepted", Message: "the initial names have been accepted",
		})
	case !conditionTrue(crd.Status.Conditions, apiextensionsv1.Established):
		setCondition(crd, transition, apiextensionsv1.CustomResourceDefinitionCondition{
			Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse,
			Reason: "NotAccepted", Message: "not all names are accepted",
		})
	}
}

func usedShortNames(want, have []string, used map[string]string) error {
	var all []error
	for _, name := range want {
		if _, ok := used[name]; ok && !slices.Contains(have, name) {
			all = append(all, fmt.Errorf("%q is already in use", name))
		}
	}
	return errors.Join(all...)
}

// setCondition sets a condition. It keeps the time of the last transition if the status is the same.
func setCondition(crd *apiextensionsv1.CustomResourceDefinition, now metav1.Time, c apiextensionsv1.CustomResourceDefinitionCondition) {
	c.LastTransitionTime = now
	for i, previous := range crd.Status.Conditions {
		if previous.Type != c.Type {
			continue
		}
		if previous.Status == c.Status {
			c.LastTransitionTime = previous.LastTransitionTime
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

// maxMoved limits how often a definition is written again because another hub wrote a definition of
// the space concurrently.
const maxMoved = 16

// defining writes a CRD or an APIBinding of the context's space, which depends on all others. This
// process writes no other one meanwhile, and the table contains all earlier ones. The transaction
// fails if any hub has written one since; then write is called again. write must not depend on
// earlier calls.
func (s *Server) defining(ctx context.Context, write func(context.Context) error) error {
	space, _ := SpaceFromContext(ctx)
	for range maxMoved {
		done, err := s.definitions.acquire(ctx, space)
		if err != nil {
			return fmt.Errorf("wait for other definitions to be written: %w", err)
		}
		if err = s.catchUp(ctx); err == nil {
			err = write(etcd.Unmoved(ctx, s.config.Table.Rev(), key.ResourcePrefix(space, key.CRDs), key.ResourcePrefix(space, key.APIBindings)))
		}
		done()
		if !errors.Is(err, etcd.ErrMoved) {
			return err
		}
	}
	return apierrors.NewServerTimeout(groupResource(key.CRDs), "write", 1)
}

// catchUp waits until the table contains everything committed before the call.
func (s *Server) catchUp(ctx context.Context) error {
	r, err := s.client.KV.Get(ctx, s.config.Prefix+key.Markers.Prefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the log's revision: %w", err)
	}
	return s.config.Table.WaitFor(ctx, r.Header.Revision)
}
