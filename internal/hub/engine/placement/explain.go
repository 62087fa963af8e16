package placement

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Explanation says why an object is assigned to a location, or why not.
type Explanation struct {
	// Object is the object's path, SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object   string       `json:"object"`
	Location key.Location `json:"location"`
	// Placed says that the object is assigned to the location. It may be held
	// there, or another object may have its place.
	Placed bool   `json:"placed"`
	Held   string `json:"held,omitempty"`
	Owner  string `json:"owner,omitempty"`
	// Definition is the path of another space's CRD that the location has, and by which the
	// object is to be right there; empty: the location has none but its own, or one that says
	// the same.
	Definition string `json:"definition,omitempty"`
	// Unhooked says that the location gets a CRD without its conversion webhook.
	Unhooked bool `json:"unhooked,omitempty"`
	// Policy is how it is treated there, unless it is held or has lost its place.
	Policy wire.Policy `json:"policy,omitzero"`
	// Returned is how its status comes back; nil if it is not placed there, or has none.
	Returned *ReturnExplanation `json:"returned,omitempty"`
	// Provided says that the object is in a provider's space; nil: it is in its own.
	Provided *ProvidedExplanation `json:"provided,omitempty"`
	// Consumers are the Placements by which a definition is there for spaces that have bound
	// what it defines, as they are named in the object's space, and OtherConsumers how many
	// more there are that the reader may not know.
	Consumers      []key.PlacementRef `json:"consumers,omitempty"`
	OtherConsumers int                `json:"otherConsumers,omitempty"`
	// Obstacles say why no policy can place it there at all.
	Obstacles []string `json:"obstacles,omitempty"`
	// Admission is what the location's spec.admit says of the object, and whether it can put
	// it anywhere; nil if there is nothing to say.
	Admission *AdmissionExplanation `json:"admission,omitempty"`
	// Upsynced says that the object is left to the location, which shows what is born there:
	// an entry of a Placement's upsync matches it, and nothing places it; nil if it is not.
	Upsynced *UpsyncExplanation `json:"upsynced,omitempty"`
	// Annotation is what the object's own annotation does; nil if it has none.
	Annotation *AnnotationExplanation `json:"annotation,omitempty"`
	// Placements are all those of the object's space, by name, then those of root that reach
	// spaces.
	Placements []PlacementExplanation `json:"placements,omitempty"`
	// Customizers are all those of the object's space, by name.
	Customizers []CustomizerExplanation `json:"customizers,omitempty"`
}

// AdmissionExplanation says whether a location admits an object.
type AdmissionExplanation struct {
	// Admits says that it does; Entry is the index of the entry by which, and
	// ServiceAccount is who acts for the object there, empty for the agent itself.
	Admits         bool   `json:"admits"`
	Entry          int    `json:"entry"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Reason is ReasonNotAdmitted if it does not; then Space says that it admits nothing
	// of the space, and Findings are why each entry does not match, up to one that can't
	// be used. ReasonClusterScoped: it can't be kept apart from what other spaces have.
	Reason   string    `json:"reason,omitempty"`
	Space    bool      `json:"space,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// UpsyncExplanation says by which Placement an object is left to a location, as it is named
// in the object's space, and by which entry of its upsync.
type UpsyncExplanation struct {
	Placement key.PlacementRef `json:"placement"`
	Entry     int              `json:"entry"`
}

// AnnotationExplanation says what the annotation of direct assignment does.
type AnnotationExplanation struct {
	// Names says that it names the location; Taint is the taint there, if any, that keeps
	// it away all the same.
	Names   bool   `json:"names"`
	Taint   string `json:"taint,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// PlacementExplanation says what one Placement does.
type PlacementExplanation struct {
	// Name is the Placement, as it is named in the object's space.
	Name key.PlacementRef `json:"name"`
	// Places says that it assigns the object to the location: it selects the
	// location, which is seated, and one of its tests matches the object; or the object
	// follows others there.
	Places    bool `json:"places"`
	Suspended bool `json:"suspended,omitempty"`
	// Follower says that the object is of another space, so that it is there only if it follows
	// others.
	Follower bool `json:"follower,omitempty"`
	// Concealed says that only what it does is told, and not why: see Conceal.
	Concealed bool `json:"concealed,omitempty"`
	// Unreached says why it does not reach the object's space.
	Unreached *Finding `json:"unreached,omitempty"`
	// Unseated says why the object does not get the location though it is selected: a
	// taint that is not tolerated, or others are picked.
	Unseated *Finding `json:"unseated,omitempty"`
	// Following says which objects it follows there, and what follows it; nil if none.
	Following *FollowExplanation `json:"following,omitempty"`
	Fit
	// Policy is how it treats the object, if a test matched.
	Policy wire.Policy `json:"policy,omitzero"`
}

// CustomizerExplanation says what one Customizer does.
type CustomizerExplanation struct {
	Name string `json:"name"`
	// Applies says that its rules are in force for the object at the location,
	// provided that the object is placed there.
	Applies bool `json:"applies"`
	Fit
	// Releases are the paths of the values that it leaves to others.
	Releases []string `json:"releases,omitempty"`
	// Changes say what else its rules do.
	Changes []string `json:"changes,omitempty"`
	// Problems are the entries of its spec that can't be used.
	Problems []string `json:"problems,omitempty"`
}

// Fit says whether a policy selects a location and matches an object.
type Fit struct {
	// Selects says that it selects the location; if not, Locations has a finding
	// for each entry.
	Selects   bool      `json:"selects"`
	Locations []Finding `json:"locations,omitempty"`
	// Matched is the index of the test that matched the object, -1 if none did;
	// then Tests has a finding for each.
	Matched int       `json:"matched"`
	Tests   []Finding `json:"tests,omitempty"`
	// Nearest is the index of the test that came closest to matching.
	Nearest int `json:"nearest,omitempty"`
}

// Finding is the first field of an entry that did not fit, and why.
type Finding struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// Explain says why an object is, or is not, assigned to a location, in agreement with the
// memberships that an Engine derived for the state. It only reads the state, so any
// goroutine may call it.
func Explain(state table.Reader, object key.Object, location key.Location) Explanation {
	e := Explanation{Object: object.Path(), Location: location}
	row := state.Get(object.Key())
	locationRow := state.Get(location.Key())
	if row == nil {
		if _, by, _ := referredTo(state, object.Space, object.Identity); by != nil {
			return explainProvided(state, object, by, location)
		}
	}
	e.Obstacles = obstacles(state, object, row, location, locationRow)
	if row == nil {
		return e
	}
	if m, ok := row.In.(*Membership); ok && m != nil {
		if place, ok := m.Place(location); ok && !place.Leaves {
			e.Placed, e.Held, e.Owner, e.Policy = true, place.Held, place.Owner, place.Policy
			e.Returned = m.explainReturn(object, row)
			e.Definition = m.explainDefinition(state, object, location)
			e.Unhooked = m.sharedAt(location) && Hooked(row.Value)
		}
	}
	if d := directOf(row); d.given {
		e.Annotation = &AnnotationExplanation{Names: slices.Contains(d.locations, location), Problem: d.problem}
	}
	at := siteOf(locationRow)
	if e.Annotation != nil && at != nil && !at.open() {
		e.Annotation.Taint = at.evicting().String()
	}
	e.Admission = explainAdmission(state, object, locationRow)
	s := subject{Object: object, row: row, state: state}
	for p := range placementsFor(state, object.Space) {
		e.Placements = append(e.Placements, p.explain(s, at))
		if m, ok := row.In.(*Membership); ok && m != nil && m.Yields(location) && e.Upsynced == nil {
			e.Upsynced = p.explainUpsync(s, location)
		}
	}
	for name, row := range policyRows(state, object.Space, key.Customizers) {
		if c := compileCustomizer(state, object.Space, name, row, nil); c != nil {
			e.Customizers = append(e.Customizers, c.explain(s, at))
		}
	}
	if len(e.Obstacles) > 0 || e.Admission != nil && !e.Admission.Admits || e.Upsynced != nil {
		for i := range e.Placements {
			e.Placements[i].Places = false
		}
		for i := range e.Customizers {
			e.Customizers[i].Applies = e.Customizers[i].Applies && e.Placed
		}
	}
	if m, ok := row.In.(*Membership); ok && m != nil && e.Placed && object.Resource == key.CRDs {
		e.explainConsumers(m)
	}
	return e
}

// explainAdmission says whether a Location admits an object; nil if nothing in its spec is
// about that.
func explainAdmission(state table.Reader, object key.Object, locationRow *table.Row) *AdmissionExplanation {
	if locationRow == nil {
		return nil
	}
	on := termsOf(locationRow)
	a, t, p := on.compile(), tenantOf(state, object.Space), petitionOf(object)
	if a == nil {
		return nil
	}
	e := &AdmissionExplanation{Entry: a.decide(t, p)}
	if e.Admits = e.Entry >= 0; e.Admits {
		if on.text == "" {
			return nil
		}
		e.ServiceAccount = a.entries[e.Entry].account
		return e
	}
	if e.Reason = reasonOf(e.Entry); e.Reason == v1alpha1.ReasonClusterScoped {
		e.Entry = notAdmitted
		return e
	}
	e.Space = !a.admitsSpace(t)
	if !e.Space { // who can use nothing of a location need not hear of its entries
		e.Findings = a.findings(t, p)
	}
	return e
}

func (e *AdmissionExplanation) describe(of Explanation, line func(string, ...any)) {
	space, _, _ := strings.Cut(of.Object, "/")
	switch {
	case e.Admits:
		line("  the location admits it by admit[%d]", e.Entry)
	case e.Reason == v1alpha1.ReasonClusterScoped:
		line("  %s: the location keeps spaces apart by namespaces of their own (namespaces: Prefixed), and the object is in none", e.Reason)
	case e.Space:
		line("  %s: the location admits nothing of space %q", e.Reason, space)
	default:
		line("  %s: no entry of the location's admit matches the object", e.Reason)
		for i, f := range e.Findings {
			line("    admit[%d]: %s", i, f)
		}
	}
}

// placementsFor are the Placements that may place objects of a space: its own, then those of
// root that reach into spaces, whether or not they reach this one.
func placementsFor(state table.Reader, space key.Space) iter.Seq[*placement] {
	return func(yield func(*placement) bool) {
		for name, row := range policyRows(state, space, key.Placements) {
			if p := compile(key.Placement{Space: space, Name: name}, row); p != nil && !yield(p) {
				return
			}
		}
		if space == key.Root {
			return
		}
		for name, row := range policyRows(state, key.Root, key.Placements) {
			of := key.Placement{Space: key.Root, Name: name}
			if p := compile(of, row); p != nil && p.reaches != nil {
				if p.ref = of.In(space); !yield(p) {
					return
				}
			}
		}
	}
}

// unreached says why a Placement is not about a space; nil if it is.
func (p *placement) unreached(state table.Reader, s key.Space) *Finding {
	switch {
	case p.reaches == nil:
		return nil
	case s == key.Root:
		return &Finding{"spaces", "it is about other spaces, never about root"}
	case state.Get(s.Key()) == nil:
		return &Finding{"spaces", fmt.Sprintf("there is no space %q", s)}
	}
	switch {
	case p.reaches.fit(tenantOf(state, s)):
		return nil
	case p.reaches.problem != "":
		return &Finding{fieldInvalid, p.reaches.problem}
	}
	return &Finding{"spaces", fmt.Sprintf("space %q is not selected", s)}
}

// policyRows are the policies of a kind in a space, by name.
func policyRows(state table.Reader, space key.Space, kind key.Resource) iter.Seq2[string, *table.Row] {
	return func(yield func(string, *table.Row) bool) {
		state.Ascend(key.ResourcePrefix(space, kind), func(row *table.Row) bool {
			o, err := key.ParseObject(row.Key)
			return err != nil || yield(o.Name, row)
		})
	}
}

// obstacles say what keeps every policy from placing an object at a location.
func obstacles(state table.Reader, object key.Object, row *table.Row, location key.Location, locationRow *table.Row) []string {
	var all []string
	if going(state, object.Space) {
		all = append(all, goingText(object.Space))
	}
	if row == nil {
		all = append(all, fmt.Sprintf("space %q has no such object", object.Space))
	} else if why := stays(object, row); why != "" {
		all = append(all, why)
	}
	if locationRow == nil {
		all = append(all, fmt.Sprintf("location %q does not exist", location))
	} else if locationRow.Meta.Deleting {
		all = append(all, fmt.Sprintf("location %q is being deleted", location))
	}
	return all
}

// going says whether a space is being deleted.
func going(state table.Reader, s key.Space) bool {
	row := state.Get(s.Key())
	return row != nil && row.Meta.Deleting
}

func goingText(s key.Space) string { return fmt.Sprintf("space %q is being deleted", s) }

func (p *placement) explain(s subject, at *site) PlacementExplanation {
	e := PlacementExplanation{Name: p.ref, Suspended: p.suspended, Unreached: p.unreached(s.state, s.Space), Fit: p.fit(s, at)}
	if m, ok := p.matches(s); ok {
		e.Policy = m.policy
	}
	if e.Selects {
		e.Unseated = p.unseated(s, at)
	}
	if at != nil && e.Unreached == nil {
		e.Following = p.explainFollowing(s, at)
	}
	e.Places = e.Unreached == nil && e.Selects && e.Unseated == nil && e.Matched >= 0 || e.Following != nil && e.Following.Follows
	return e
}

func (c *customizer) explain(s subject, at *site) CustomizerExplanation {
	e := CustomizerExplanation{Name: c.name, Changes: c.changes, Fit: c.fit(s, at), Problems: c.problems}
	if c.releases.text != "" {
		e.Releases = strings.Split(c.releases.text, "\n")
	}
	e.Applies = e.Selects && e.Matched >= 0
	return e
}

// fit is how a policy fits an object and a location, nil for one that is not there.
func (p *scope) fit(s subject, at *site) Fit {
	e := Fit{Matched: -1, Selects: at != nil && p.selects(at)}
	if !e.Selects && at != nil {
		for i := range p.locations {
			f, _ := p.locations[i].find(at)
			e.Locations = append(e.Locations, f)
		}
	}
	nearest := 0
	for i := range p.tests {
		f, rank := p.tests[i].find(s)
		if f.Field == "" {
			e.Matched, e.Tests, e.Nearest = i, nil, 0
			break
		}
		e.Tests = append(e.Tests, f)
		if rank > nearest {
			e.Nearest, nearest = i, rank
		}
	}
	if len(p.problems) > 0 && len(p.locations)+len(p.tests) == 0 { // no part of the spec could be read
		e.Tests = append(e.Tests, Finding{fieldInvalid, p.problems[0]})
	}
	return e
}

func format(l table.Labels) string {
	if len(l) == 0 {
		return "(none)"
	}
	parts := make([]string, len(l))
	for i, p := range l {
		parts[i] = p.Key + "=" + p.Value
	}
	return strings.Join(parts, ",")
}
