package placement

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/engine/refs"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/scenario"
)

// TestScenarios runs testdata/*.txtar. The files of an archive are steps:
//
//	apply SPACE        YAML objects, written in one revision; a Placement without a status
//	                   by an author that may read everything
//	delete SPACE       GROUP/RESOURCE/[NAMESPACE/]NAME, one per line
//	report LOCATION    SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME STATE, one per line
//	places             what is expected to be placed where
//	why PATH LOCATION  the expected explanation
//	status SPACE NAME  the expected status of a Placement
//	used SPACE NAME    the expected problems of a Customizer
//	locations SPACE    the locations that a space sees
//	asked LOCATION     the upsync entries of a location
func TestScenarios(t *testing.T) {
	scenario.Run(t, func(t *testing.T) scenario.Step {
		s := &scenarioState{T: t}
		_, s.table = newTable()
		return s.step
	})
}

// scenarioState is the state of a scenario.
type scenarioState struct {
	*testing.T
	table *table.Writer
	rev   int64
}

func (s *scenarioState) step(words []string, data []byte) (result string, expects bool) {
	args := append(words[1:], "", "")
	switch words[0] {
	case "apply":
		s.applyYAML(key.Space(args[0]), data)
		return "", false
	case "delete":
		s.remove(key.Space(args[0]), strings.Fields(string(data)))
		return "", false
	case "report":
		s.report(key.Location(args[0]), strings.Fields(string(data)))
		return "", false
	case "places":
		return s.places(), true
	case "why":
		return s.why(args[0], key.Location(args[1])), true
	case "status":
		return s.status(key.Space(args[0]), args[1]), true
	case "locations":
		return s.locations(key.Space(args[0])), true
	case "asked":
		return s.upsyncs(key.Location(args[0])), true
	case "used":
		return s.problems(key.Space(args[0]), args[1]), true
	}
	s.Fatalf("unknown step %q", words)
	return "", false
}

var scenarioKinds = map[string]key.Resource{
	"ConfigMap":                {Group: "core", Resource: "configmaps"},
	"Secret":                   key.Secrets,
	"ServiceAccount":           key.NewResource("", "serviceaccounts"),
	"PersistentVolumeClaim":    key.NewResource("", "persistentvolumeclaims"),
	"Job":                      key.NewResource("batch", "jobs"),
	"Ingress":                  key.NewResource("networking.k8s.io", "ingresses"),
	"CustomResourceDefinition": key.CRDs,
	"Widget":                   key.NewResource("example.com", "widgets"),
	"Event":                    {Group: "core", Resource: "events"},
	"Namespace":                {Group: "core", Resource: "namespaces"},
	"Deployment":               {Group: "apps", Resource: "deployments"},
	"ResourceQuota":            key.NewResource("", "resourcequotas"),
	"ClusterRole":              {Group: "rbac.authorization.k8s.io", Resource: "clusterroles"},
	"Location":                 key.Locations,
	"Space":                    key.Spaces,
	"Placement":                key.Placements,
	"Customizer":               key.Customizers,
	"APIBinding":               key.APIBindings,
}

func (s *scenarioState) applyYAML(space key.Space, data []byte) {
	s.rev++
	var updates []table.Update
	for doc := range bytes.SplitSeq(data, []byte("---\n")) {
		var object struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"metadata"`
		}
		var all map[string]any
		if err := yaml.Unmarshal(doc, &object); err != nil {
			s.Fatal(err)
		}
		if err := yaml.Unmarshal(doc, &all); err != nil {
			s.Fatal(err)
		}
		r, ok := scenarioKinds[object.Kind]
		if !ok {
			s.Fatalf("unknown kind %q", object.Kind)
		}
		k := key.Object{Space: space, Identity: key.Identity{Resource: r, Namespace: object.Metadata.Namespace, Name: object.Metadata.Name}}.Key()
		u := table.Update{Key: k, CreateRev: s.rev, ModRev: s.rev}
		uid := fmt.Sprintf("uid-%d", s.rev)
		if row, _ := s.table.Get(k); row != nil {
			u.CreateRev, uid = row.CreateRev, row.Meta.UID
		}
		all["metadata"].(map[string]any)["uid"] = uid
		if r == key.Placements && all["status"] == nil {
			all["status"] = followsAll(doc)
		}
		value, err := json.Marshal(all)
		if err != nil {
			s.Fatal(err)
		}
		u.Value = value
		updates = append(updates, u)
	}
	s.write(updates)
}

// followsAll is the status of a Placement whose writer may read everything.
func followsAll(doc []byte) (status v1alpha1.PlacementStatus) {
	var p v1alpha1.Placement
	if err := yaml.Unmarshal(doc, &p); err != nil {
		return status // a spec that can't be read is a scenario, too
	}
	for i, d := range p.Spec.Downsync {
		if !d.FollowReferences {
			continue
		}
		f := v1alpha1.Follows{Entry: int32(i)}
		for _, k := range refs.All() {
			f.Resources = append(f.Resources, k.String())
		}
		status.Follows = append(status.Follows, f)
	}
	return status
}

func (s *scenarioState) write(updates []table.Update) {
	if err := s.table.Apply(s.rev, updates); err != nil {
		s.Fatal(err)
	}
}

func (s *scenarioState) remove(space key.Space, identities []string) {
	s.rev++
	var updates []table.Update
	for _, id := range identities {
		o, err := key.ParsePath(string(space) + "/" + id)
		if err != nil {
			s.Fatal(err)
		}
		updates = append(updates, table.Update{Key: o.Key(), ModRev: s.rev})
	}
	s.write(updates)
}

func (s *scenarioState) report(l key.Location, words []string) {
	s.rev++
	var updates []table.Update
	for ; len(words) > 1; words = words[2:] {
		o, err := key.ParsePath(words[0])
		if err != nil {
			s.Fatal(err)
		}
		row, _ := s.table.Get(o.Key())
		r := wire.Report{UID: row.Meta.UID, State: wire.State(words[1]), Digest: wire.SumOf(nil)}
		k := key.Report{Location: l, Origin: key.Placed, Object: o}.Key()
		updates = append(updates, table.Update{Key: k, Value: mustJSON(r), CreateRev: s.rev, ModRev: s.rev})
	}
	s.write(updates)
}

func (s *scenarioState) places() string {
	var b strings.Builder
	s.table.Snapshot().Ascend("o/", func(row *table.Row) bool {
		m, ok := row.In.(*Membership)
		if !ok {
			return true
		}
		_, _ = fmt.Fprintf(&b, "%s %v\n", strings.TrimPrefix(row.Key, "o/"), m.Placements())
		for _, p := range m.Places() {
			_, _ = fmt.Fprintf(&b, "  %s", p.Location)
			if p.Held != "" {
				_, _ = fmt.Fprintf(&b, ", held: %s", p.Held)
			}
			if p.Owner != "" {
				_, _ = fmt.Fprintf(&b, ", has %s", p.Owner)
			}
			if how := describePolicy(p.Policy); how != "" {
				_, _ = fmt.Fprintf(&b, ", %s", how)
			}
			if p.Class != nil && p.Class.Definition != nil {
				_, _ = fmt.Fprintf(&b, ", defined there by %s", p.Class.Definition.Spec)
			}
			b.WriteString("\n")
		}
		for _, l := range m.yields {
			_, _ = fmt.Fprintf(&b, "  left to %s\n", l)
		}
		for _, l := range m.Refused() {
			what := "not admitted"
			if reason := m.Refusal(l); reason != v1alpha1.ReasonNotAdmitted {
				what = "refused for " + reason
			}
			_, _ = fmt.Fprintf(&b, "  %s by %s\n", what, l)
		}
		if way, from := m.Returns(); way != v1alpha1.ReturnStatusNone {
			_, _ = fmt.Fprintf(&b, "  status: %s from %v\n", way, from)
		}
		return true
	})
	return b.String()
}

func (s *scenarioState) locations(space key.Space) string {
	var seen []string
	s.table.Snapshot().Ascend(key.ResourcePrefix(key.Root, key.Locations), func(row *table.Row) bool {
		if l, ok := key.LocationOf(row.Key); ok && Shown(row, space) {
			seen = append(seen, string(l))
		}
		return true
	})
	return fmt.Sprintf("%v\n", seen)
}

func (s *scenarioState) upsyncs(l key.Location) string {
	var b strings.Builder
	row, _ := s.table.Get(l.Key())
	entries, _ := UpsyncsOf(row).Entries()
	for _, a := range entries {
		_, _ = fmt.Fprintf(&b, "%s\n", mustJSON(a))
	}
	return b.String()
}

func (s *scenarioState) why(path string, l key.Location) string {
	o, err := key.ParsePath(path)
	if err != nil {
		s.Fatal(err)
	}
	return Explain(s.Context(), s.table.Snapshot(), o, l).String()
}

func (s *scenarioState) status(space key.Space, name string) string {
	status, ok := StatusOf(s.table.Snapshot(), key.Placement{Space: space, Name: name})
	if !ok {
		return "gone\n"
	}
	text := fmt.Sprintf("%v\n", status.Locations)
	if status.Reaches {
		text = fmt.Sprintf("%d spaces, %s", status.Spaces, text)
	}
	if len(status.Unknown) > 0 {
		text += fmt.Sprintf("unknown: %v\n", status.Unknown)
	}
	for _, u := range status.Unasked {
		text += fmt.Sprintf("not asked: %s\n", u.In(space))
	}
	for _, p := range status.Problems {
		text += p + "\n"
	}
	return text
}

func (s *scenarioState) problems(space key.Space, name string) string {
	problems, ok := ProblemsOf(s.table.Snapshot(), space, name, nil)
	if !ok {
		return "gone\n"
	}
	return strings.Join(append(problems, ""), "\n")
}
