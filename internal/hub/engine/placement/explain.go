package placement

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Explanation describes why an object is assigned to a location, or why not.
type Explanation struct {
	// Object is the object's path, SPACE/GROUP/RESOURCE/[NAMESPACE/]NAME.
	Object   string       `json:"object"`
	Location key.Location `json:"location"`
	// Placed reports whether the object is assigned to the location. It may be held there, or the
	// location may have another object of its identity.
	Placed bool   `json:"placed"`
	Held   string `json:"held,omitempty"`
	Owner  string `json:"owner,omitempty"`
	// Definition is the path of another space's CRD that the location has and by which the object
	// must be valid there. It is empty if the location has the object's own CRD, none, or one with
	// an equal spec.
	Definition string `json:"definition,omitempty"`
	// Unhooked reports whether the location gets a CRD without its conversion webhook.
	Unhooked bool `json:"unhooked,omitempty"`
	// Policy is the policy for the object there. It is empty if the object is held or another
	// object has its identity.
	Policy wire.Policy `json:"policy,omitzero"`
	// Returned describes how the status returns; nil if the object is not placed there or has no
	// status.
	Returned *ReturnExplanation `json:"returned,omitempty"`
	// Provided is set if the object is in the space of a provider; nil if it is in its own.
	Provided *ProvidedExplanation `json:"provided,omitempty"`
	// Consumers lists the Placements by which the location has a CRD for spaces that have bound its
	// resource, as they are named in the object's space. OtherConsumers counts those that the
	// reader may not know.
	Consumers      []key.PlacementRef `json:"consumers,omitempty"`
	OtherConsumers int                `json:"otherConsumers,omitempty"`
	// Obstacles are the reasons why no policy can place the object there.
	Obstacles []string `json:"obstacles,omitempty"`
	// Admission is the decision of the location's spec.admit and namespace mapping; nil if these do
	// not restrict anything.
	Admission *AdmissionExplanation `json:"admission,omitempty"`
	// Upsynced is set if the object is left to the cluster of the location: an upsync entry of a
	// Placement matches it, so it is reported from there and not placed.
	Upsynced *UpsyncExplanation `json:"upsynced,omitempty"`
	// Annotation describes the annotation of direct assignment; nil if the object has none.
	Annotation *AnnotationExplanation `json:"annotation,omitempty"`
	// Placements are all Placements of the object's space, by name, then those of root that select
	// other spaces.
	Placements []PlacementExplanation `json:"placements,omitempty"`
	// Customizers are all Customizers of the object's space, by name.
	Customizers []CustomizerExplanation `json:"customizers,omitempty"`
	Omissions
}

// Omissions are the policies that were not evaluated for an Explanation, since that would take too long. Whether the
// object is placed does not depend on them, apart from an object of a provider that a Placement of root brings.
type Omissions struct {
	// OmittedPlacements and OmittedCustomizers count those of the object's space. OmittedOfRoot reports whether
	// there are Placements of root among them.
	OmittedPlacements  int  `json:"omittedPlacements,omitempty"`
	OmittedOfRoot      bool `json:"omittedOfRoot,omitempty"`
	OmittedCustomizers int  `json:"omittedCustomizers,omitempty"`
}

// AdmissionExplanation describes whether a location admits an object.
type AdmissionExplanation struct {
	// Admits reports whether it does. Entry is then the index of the entry that admits it, and
	// ServiceAccount the account that the agent impersonates for it, if any.
	Admits         bool   `json:"admits"`
	Entry          int    `json:"entry"`
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Reason is ReasonNotAdmitted or ReasonClusterScoped if it does not. With ReasonNotAdmitted,
	// Space reports whether the location admits nothing of the space; otherwise Findings holds the
	// reason for each entry, up to one that cannot be used. ReasonClusterScoped: the location
	// prefixes namespaces, so it cannot separate cluster-scoped objects of several spaces.
	Reason   string    `json:"reason,omitempty"`
	Space    bool      `json:"space,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
}

// UpsyncExplanation names the Placement, as it is named in the object's space, and its upsync entry
// that leave an object to a location.
type UpsyncExplanation struct {
	Placement key.PlacementRef `json:"placement"`
	Entry     int              `json:"entry"`
}

// AnnotationExplanation describes the annotation of direct assignment.
type AnnotationExplanation struct {
	// Names reports whether it names the location. Taint is a taint that keeps the object away
	// nevertheless.
	Names   bool   `json:"names"`
	Taint   string `json:"taint,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// PlacementExplanation describes the effect of one Placement.
type PlacementExplanation struct {
	// Name is the name of the Placement in the object's space.
	Name key.PlacementRef `json:"name"`
	// Places reports whether the Placement assigns the object to the location: it selects and picks
	// the location and an entry matches the object, or the object follows others there.
	Places    bool `json:"places"`
	Suspended bool `json:"suspended,omitempty"`
	// Follower reports whether the object is in another space, so that it can only follow others.
	Follower bool `json:"follower,omitempty"`
	// Concealed reports whether the reader may see only the effect of the Placement and not the
	// reasons: see Conceal.
	Concealed bool `json:"concealed,omitempty"`
	// Unreached is the reason why the Placement does not apply to the object's space.
	Unreached *Finding `json:"unreached,omitempty"`
	// Unseated is the reason why the object does not get a location that is selected: a taint that
	// is not tolerated, or the pick.
	Unseated *Finding `json:"unseated,omitempty"`
	// Following describes the objects that it follows there, and those that follow it; nil if there
	// are none.
	Following *FollowExplanation `json:"following,omitempty"`
	Fit
	// Policy is the policy for the object, if an entry matches.
	Policy wire.Policy `json:"policy,omitzero"`
}

// CustomizerExplanation describes the effect of one Customizer.
type CustomizerExplanation struct {
	Name string `json:"name"`
	// Applies reports whether its rules are in effect for the object at the location, if the object
	// is placed there.
	Applies bool `json:"applies"`
	Fit
	// Releases are the paths of the values that other writers may change.
	Releases []string `json:"releases,omitempty"`
	// Changes describes its other rules.
	Changes []string `json:"changes,omitempty"`
	// Problems describes the errors in its spec.
	Problems []string `json:"problems,omitempty"`
}

// Fit describes whether a policy selects a location and matches an object.
type Fit struct {
	// Selects reports whether the policy selects the location; if not, Locations has a finding for
	// each entry.
	Selects   bool      `json:"selects"`
	Locations []Finding `json:"locations,omitempty"`
	// Matched is the index of the first test that matches the object, or -1; then Tests has a
	// finding for each test.
	Matched int       `json:"matched"`
	Tests   []Finding `json:"tests,omitempty"`
	// Nearest is the index of the test that came closest to matching.
	Nearest int `json:"nearest,omitempty"`
}

// Finding is the first field of an entry that does not match, and the reason.
type Finding struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// maxExplained is the budget of an explanation, in rows.
const maxExplained = 2 * maxTrail

// Explain describes why an object is, or is not, assigned to a location. It agrees with the
// memberships that an Engine derived for the state. It only reads the state, so any goroutine may
// call it. Its work is bounded, and ends with the context.
func Explain(ctx context.Context, state table.Reader, object key.Object, location key.Location) Explanation {
	budget := NewBudget(ctx, maxExplained)
	e := Explanation{Object: object.Path(), Location: location}
	row := state.Get(object.Key())
	locationRow := state.Get(location.Key())
	if locationRow != nil && !isMember(row, location) && !isVisible(locationRow, tenantOf(state, object.Space)) {
		locationRow = nil // its space must not find out that it exists
	}
	if row == nil {
		if _, apiBinding, _ := referredTo(state, object.Space, object.Identity); apiBinding != nil {
			return explainProvided(state, budget, object, apiBinding, location, locationRow)
		}
	}
	e.Obstacles = append(obstacles(state, object, row), locationObstacles(object.Space, location, locationRow)...)
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
	loc := siteOf(locationRow)
	if e.Annotation != nil && loc != nil && !loc.open() {
		e.Annotation.Taint = loc.evicting().String()
	}
	e.Admission = explainAdmission(state, object, locationRow)
	s := subject{Object: object, row: row, state: budget.Reader(state)}
	m, _ := row.In.(*Membership)
	isYielded := m != nil && m.Yields(location)
	e.explainPlacements(state, budget, object.Space, func(p *placement) PlacementExplanation {
		if isYielded && e.Upsynced == nil {
			e.Upsynced = p.explainUpsync(s, location)
		}
		return p.explain(s, loc)
	})
	for name, row := range policyRows(state, object.Space, key.Customizers) {
		if !budget.Spend(costOfPolicy(row)) {
			e.OmittedCustomizers++
		} else if c := compileCustomizer(state, object.Space, name, row, nil); c != nil {
			e.Customizers = append(e.Customizers, c.explain(s, loc))
		}
	}
	if len(e.Obstacles) > 0 || e.Admission != nil && !e.Admission.Admits || isYielded {
		for i := range e.Placements {
			e.Placements[i].Places = false
		}
		for i := range e.Customizers {
			e.Customizers[i].Applies = e.Customizers[i].Applies && e.Placed
		}
	}
	if m != nil && e.Placed && object.Resource == key.CRDs {
		e.explainConsumers(m)
	}
	return e
}

// explainPlacements adds the explanations of the Placements that may place objects of a space, until the budget is
// spent. It counts the others.
func (e *Explanation) explainPlacements(state table.Reader, budget *Budget, space key.Space, explain func(*placement) PlacementExplanation) {
	for name, row := range placementRowsFor(state, space) {
		if budget.Spend(costOfPolicy(row)) {
			p := compileFor(name, row, space)
			if p == nil {
				continue
			}
			if one := explain(p); !budget.IsSpent() {
				e.Placements = append(e.Placements, one)
				continue
			}
		}
		switch {
		case budget.isEnded():
			return
		case name.Space == space:
			e.OmittedPlacements++
		default:
			e.OmittedOfRoot = true
		}
	}
}

// explainAdmission describes whether a Location admits an object; nil if its spec does not restrict
// anything.
func explainAdmission(state table.Reader, object key.Object, locationRow *table.Row) *AdmissionExplanation {
	if locationRow == nil {
		return nil
	}
	admission := termsOf(locationRow)
	a, t, p := admission.compile(), tenantOf(state, object.Space), admissionRequestOf(object)
	if a == nil {
		return nil
	}
	e := &AdmissionExplanation{Entry: a.decide(t, p)}
	if e.Admits = e.Entry >= 0; e.Admits {
		if admission.text == "" {
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
	if !e.Space { // a space that can use nothing of a location must not see its entries
		e.Findings = a.findings(t, p)
	}
	return e
}

func (e *AdmissionExplanation) describe(explanation Explanation, line func(string, ...any)) {
	space, _, _ := strings.Cut(explanation.Object, "/")
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

// placementsFor yields the Placements that may place objects of a space: its own, then all those of
// root that select spaces.
func placementsFor(state table.Reader, space key.Space) iter.Seq[*placement] {
	return func(yield func(*placement) bool) {
		for name, row := range placementRowsFor(state, space) {
			if p := compileFor(name, row, space); p != nil && !yield(p) {
				return
			}
		}
	}
}

// placementRowsFor yields the rows of the Placements that may place objects of a space: its own, then those of root
// that have spec.spaces.
func placementRowsFor(state table.Reader, space key.Space) iter.Seq2[key.Placement, *table.Row] {
	return func(yield func(key.Placement, *table.Row) bool) {
		for name, row := range policyRows(state, space, key.Placements) {
			if acts(row) && !yield(key.Placement{Space: space, Name: name}, row) {
				return
			}
		}
		if space == key.Root {
			return
		}
		for name, row := range policyRows(state, key.Root, key.Placements) {
			if acts(row) && gjson.GetBytes(row.Value, "spec.spaces").Exists() && !yield(key.Placement{Space: key.Root, Name: name}, row) {
				return
			}
		}
	}
}

// compileFor compiles a Placement for the objects of a space; nil if it can't place them.
func compileFor(name key.Placement, row *table.Row, space key.Space) *placement {
	p := compile(name, row)
	if p == nil || name.Space != space && p.reaches == nil {
		return nil
	}
	p.ref = name.In(space)
	return p
}

// unreached returns the reason why a Placement does not apply to a space; nil if it does.
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

// policyRows yields the policies of a kind in a space, by name.
func policyRows(state table.Reader, space key.Space, kind key.Resource) iter.Seq2[string, *table.Row] {
	return func(yield func(string, *table.Row) bool) {
		state.Ascend(key.ResourcePrefix(space, kind), func(row *table.Row) bool {
			o, err := key.ParseObject(row.Key)
			return err != nil || yield(o.Name, row)
		})
	}
}

// isMember reports whether an object is assigned to a location; row is nil if the object does not exist.
func isMember(row *table.Row, location key.Location) bool {
	if row == nil {
		return false
	}
	m, ok := row.In.(*Membership)
	return ok && m != nil && m.Contains(location)
}

// obstacles returns the reasons why no policy can place an object at any location.
func obstacles(state table.Reader, object key.Object, row *table.Row) (all []string) {
	if going(state, object.Space) {
		all = append(all, goingText(object.Space))
	}
	if row == nil {
		all = append(all, fmt.Sprintf("space %q has no such object", object.Space))
	} else if why := stays(object, row); why != "" && !isKept(row) {
		all = append(all, why)
	}
	return all
}

// locationObstacles returns the reasons why no policy of a space can place an object at a location. row is nil if the
// space does not see the location: the text is the same whether or not it exists.
func locationObstacles(s key.Space, location key.Location, row *table.Row) []string {
	switch {
	case row == nil && s == key.Root:
		return []string{fmt.Sprintf("location %q does not exist", location)}
	case row == nil:
		return []string{fmt.Sprintf("location %q does not exist, or accepts nothing of space %q", location, s)}
	case row.Meta.Deleting:
		return []string{fmt.Sprintf("location %q is being deleted", location)}
	}
	return nil
}

// going reports whether a space is being deleted.
func going(state table.Reader, s key.Space) bool {
	row := state.Get(s.Key())
	return row != nil && row.Meta.Deleting
}

func goingText(s key.Space) string { return fmt.Sprintf("space %q is being deleted", s) }

func (p *placement) explain(s subject, loc *site) PlacementExplanation {
	e := PlacementExplanation{Name: p.ref, Suspended: p.suspended, Unreached: p.unreached(s.state, s.Space), Fit: p.fit(s, loc)}
	if m, ok := p.matches(s); ok {
		e.Policy = m.policy
	}
	if e.Selects {
		e.Unseated = p.unseated(s, loc)
	}
	if loc != nil && e.Unreached == nil {
		e.Following = p.explainFollowing(s, loc)
	}
	e.Places = e.Unreached == nil && e.Selects && e.Unseated == nil && e.Matched >= 0 || e.Following != nil && e.Following.Follows
	return e
}

func (c *customizer) explain(s subject, loc *site) CustomizerExplanation {
	e := CustomizerExplanation{Name: c.name, Changes: c.changes, Fit: c.fit(s, loc), Problems: c.problems}
	if c.releases.text != "" {
		e.Releases = strings.Split(c.releases.text, "\n")
	}
	e.Applies = e.Selects && e.Matched >= 0
	return e
}

// fit returns how a policy matches an object and a location; a nil location does not exist.
func (p *scope) fit(s subject, loc *site) Fit {
	e := Fit{Matched: -1, Selects: loc != nil && p.selects(loc)}
	if !e.Selects && loc != nil {
		for i := range p.locations {
			f, _ := p.locations[i].find(loc)
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
	pairs := make([]string, len(l))
	for i, p := range l {
		pairs[i] = p.Key + "=" + p.Value
	}
	return strings.Join(pairs, ",")
}
