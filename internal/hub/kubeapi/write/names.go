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

// taken are the names that other kinds of a group have, with who has them.
type taken struct{ resources, kinds map[string]string }

func (t taken) add(by string, names apiextensionsv1.CustomResourceDefinitionNames) {
	for _, name := range slices.Concat([]string{names.Plural, names.Singular}, names.ShortNames) {
		t.resources[name] = by
	}
	t.kinds[names.Kind], t.kinds[names.ListKind] = by, by
}

// namesTaken are the names in a group that an object of the space can't have for what it
// defines: those of built-in kinds, and those that other CRDs and APIBindings have.
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
		// A CRD is called RESOURCE.GROUP, so most need not be decoded.
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
	for _, b := range binding.Of(state, space) {
		if except == (key.Identity{Resource: key.APIBindings, Name: b.Name}) {
			continue
		}
		for _, of := range b.Status.Resources {
			if of.Group == group {
				t.add(fmt.Sprintf("APIBinding %q", b.Name), binding.Names(of))
			}
		}
	}
	delete(t.resources, "")
	delete(t.kinds, "")
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

func usedShortNames(want, have []string, used map[string]string) error {
	var all []error
	for _, name := range want {
		if _, ok := used[name]; ok && !slices.Contains(have, name) {
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

// maxMoved bounds how often a definition is written again since another hub has written one
// of the space at the same moment.
const maxMoved = 16

// defining writes a CRD or an APIBinding of the context's space by what all others are: no
// other is being written by this process, the table shows all that were, and the write is made
// only if none has been since, by any hub; otherwise it is decided again. write must not
// depend on what it has done before.
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

// catchUp waits until the table shows everything committed before the call.
func (s *Server) catchUp(ctx context.Context) error {
	r, err := s.client.KV.Get(ctx, s.config.Prefix+key.Markers.Prefix(), clientv3.WithCountOnly())
	if err != nil {
		return fmt.Errorf("read the log's revision: %w", err)
	}
	return s.config.Table.WaitFor(ctx, r.Header.Revision)
}
