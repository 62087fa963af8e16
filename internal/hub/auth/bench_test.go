package auth

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/route"
)

// BenchmarkAuthorize decides with 10,000 Grants of others, half of them in the same space. The cost
// depends on the Grants of the requesting user.
func BenchmarkAuthorize(b *testing.B) {
	grants := NewGrants()
	t := table.New(table.Config{Observer: grants, WindowSteps: 10, WindowBytes: 1 << 20})
	var state []table.Update
	add := func(s key.Space, name, who string, spaces *v1alpha1.SpaceSelector) {
		value, err := json.Marshal(v1alpha1.Grant{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.GrantSpec{
			Subjects: []v1alpha1.GrantSubject{{Kind: v1alpha1.GrantSubjectUser, Name: who}, {Kind: v1alpha1.GrantSubjectGroup, Name: "of-" + who}},
			Rules:    []v1alpha1.GrantRule{{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list"}}},
			Spaces:   spaces,
		}})
		if err != nil {
			b.Fatal(err)
		}
		state = append(state, table.Update{Key: objectIn(s, key.Grants, name).Key(), Value: value, CreateRev: 1, ModRev: 1})
	}
	const others = 10_000
	for i := range others {
		switch i % 4 {
		case 0:
			add(key.Root, fmt.Sprint("g", i), fmt.Sprint("user", i), &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}})
		case 1:
			add(key.Space(fmt.Sprint("s", i)), "g", fmt.Sprint("user", i), nil)
		default:
			add("a", fmt.Sprint("g", i), fmt.Sprint("user", i), nil)
		}
	}
	add("a", "mine", "jane", nil)
	add(key.Root, "reaching", "joe", &v1alpha1.SpaceSelector{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}})
	state = append(state, table.Update{Key: key.Space("a").Key(), Value: []byte(`{"metadata":{"name":"a","labels":{"team":"x"}}}`), CreateRev: 1, ModRev: 1})
	t.Reset(1, state)
	z := &Authorizer{grants: grants, table: t.Table}
	ctx := context.WithValue(context.Background(), rootKey{}, route.Space("a"))
	for _, c := range []struct {
		name string
		who  user.Info
		want authorizer.Decision
	}{
		{"master", named("admin", user.SystemPrivilegedGroup), authorizer.DecisionAllow},
		{"holder", named("jane"), authorizer.DecisionAllow},
		{"reached", named("joe"), authorizer.DecisionAllow},
		{"minted", named("jim", "orrery:space:a:view"), authorizer.DecisionAllow},
		{"nobody", named("nobody"), authorizer.DecisionNoOpinion},
	} {
		b.Run(c.name, func(b *testing.B) {
			a := authorizer.AttributesRecord{User: c.who, Verb: "list", APIGroup: "apps", Resource: "deployments", Namespace: "n", ResourceRequest: true}
			b.ReportAllocs()
			for b.Loop() {
				if got, _, _ := z.Authorize(withConditions(ctx), a); got != c.want {
					b.Fatal(got)
				}
			}
		})
	}
	b.Run("change", func(b *testing.B) {
		row := table.Row{Entry: table.NewEntry(state[0].Key, state[0].Value, 1, 2)}
		b.ReportAllocs()
		for b.Loop() {
			grants.Observe(2, []table.Change{{Prev: &row, Cur: &table.Row{Entry: table.NewEntry(row.Key, row.Value, 1, 3)}}})
		}
	})
}
