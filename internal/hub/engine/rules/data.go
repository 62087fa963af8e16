package rules

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"weak"

	"orrery.dev/orrery/internal/hub/engine/expression"
)

const (
	// maxData bounds what the rules of one Customizer use of ConfigMaps at all locations
	// alike, in bytes.
	maxData = 64 << 10
	// maxDataHere bounds what they use of ConfigMaps at one location besides, in bytes.
	maxDataHere = 16 << 10
	// minSweep keeps few contents from being swept all the time.
	minSweep = 64
)

// Data is what rules can use of a ConfigMap.
type Data struct {
	// Name is that under which expressions have it.
	Name string
	// Source is the ConfigMap's namespace and name, for people.
	Source string
	// Values is the ConfigMap's data, a JSON object; empty if there is no such ConfigMap.
	Values string
}

var (
	errTooMuchData = fmt.Errorf("the rules use more than %d bytes of ConfigMaps", maxData)
	errTooMuchHere = fmt.Errorf("the rules use more than %d bytes of ConfigMaps for this location alone", maxDataHere)
)

// content is the decoded data of ConfigMaps that have the same.
type content struct{ values map[string]any }

// contents shares them between Customizers, for as long as these use them.
type contents struct {
	mu      sync.Mutex
	of      map[[sha256.Size]byte]weak.Pointer[content]
	sweepAt int
}

// get is nil if the text is not that of an object.
func (cs *contents) get(text string) *content {
	sum := sha256.Sum256([]byte(text))
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if known := cs.of[sum].Value(); known != nil {
		return known
	}
	decoded, err := expression.Decode([]byte(text))
	values, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	if cs.of == nil {
		cs.of = map[[sha256.Size]byte]weak.Pointer[content]{}
	}
	if len(cs.of) >= cs.sweepAt {
		maps.DeleteFunc(cs.of, func(_ [sha256.Size]byte, w weak.Pointer[content]) bool { return w.Value() == nil })
		cs.sweepAt = max(minSweep, 2*len(cs.of))
	}
	made := &content{values}
	cs.of[sum] = weak.Make(made)
	return made
}

// usedData is what rules use of ConfigMaps.
type usedData struct {
	of, here uses
	contents map[string]*content
	// missing are the ConfigMaps that are not there, by name.
	missing map[string]string
}

// used is what is used of data. Nothing is decoded of which nothing is used.
func (e *Engine) used(of uses, data []Data) usedData {
	u := usedData{of: of, here: of.byLocation(), contents: map[string]*content{}}
	for _, d := range data {
		if !of.has(d.Name) {
			continue
		}
		if c := e.contents.get(d.Values); c != nil {
			u.contents[d.Name] = c
			continue
		}
		if u.missing == nil {
			u.missing = map[string]string{}
		}
		u.missing[d.Name] = d.Source
	}
	return u
}

// pick is what some uses have of the ConfigMaps.
func (u usedData) pick(of uses) map[string]any {
	all := map[string]any{}
	for name, c := range u.contents {
		all[name] = c.values
	}
	picked, _ := of.pick(all).(map[string]any)
	return picked
}

// into adds what is used at all locations alike to a text; ok is false if that is too much.
func (u usedData) into(t *text) (ok bool) {
	if u.of.none() {
		return true
	}
	picked := u.pick(u.of.at(nil))
	if sizeOf(picked) > maxData {
		return false
	}
	t.Data, t.Missing = expression.Encode(picked), u.missing
	return true
}

// at adds to what is needed of a location what is used of ConfigMaps there alone; false
// stands for too much.
func (u usedData) at(values, needs map[string]any) {
	if u.here.none() {
		return
	}
	picked := u.pick(u.here.at(values))
	if sizeOf(picked) > maxDataHere {
		needs[varData] = false
		return
	}
	needs[varData] = picked
}

// takeData has expressions see the data of a text, which is shared and stays as it is, and
// what came with the location; tooMuch says that the latter is more than it may be.
func (r *run) takeData(common map[string]any) (tooMuch bool) {
	of, came := r.ofLocation[varData]
	delete(r.ofLocation, varData)
	here, ok := of.(map[string]any)
	r.data = common
	if len(here) > 0 {
		r.data = maps.Clone(common)
	}
	for name, more := range here {
		these, _ := more.(map[string]any)
		texts := maps.Clone(these)
		if shared, _ := common[name].(map[string]any); len(shared) > 0 {
			texts = maps.Clone(shared)
			maps.Copy(texts, these)
		}
		r.data[name] = texts
	}
	return came && !ok
}

// explain adds to the error of a rule which of its ConfigMaps are not there.
func (s *ruleset) explain(of *rule, err error) error {
	if err == nil || len(s.missing) == 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.missing)) {
		if used := of.program.uses(); used.has(name) {
			err = fmt.Errorf("%w (data.%s: there is no ConfigMap %s)", err, name, s.missing[name])
		}
	}
	return err
}

// uses is what a program, which may be nil, uses of data.
func (p *program) uses() uses {
	if p == nil {
		return uses{}
	}
	return p.data
}

// undeclared says which data a program, which may be nil, uses that is not among names.
func (p *program) undeclared(expression string, names []string) *problem {
	for part := range p.uses().fields {
		if part.by == "" && !slices.Contains(names, part.name) {
			return &problem{"expression", expression, errors.New("not valid: data." + part.name + " is not among the names of spec.data")}
		}
	}
	return nil
}
