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
	// maxData bounds the data of ConfigMaps that the rules of one Customizer use at all locations
	// alike, in bytes.
	maxData = 64 << 10
	// maxDataHere bounds the further data that they use at one location, in bytes.
	maxDataHere = 16 << 10
	// minSweep is the size up to which the pool is not swept.
	minSweep = 64
)

// Data is a ConfigMap for rules.
type Data struct {
	// Name is its name in expressions.
	Name string
	// Source is the ConfigMap's namespace and name, for messages.
	Source string
	// Values is the ConfigMap's data, a JSON object; empty if there is no such ConfigMap.
	Values string
}

var (
	errTooMuchData = fmt.Errorf("the rules use more than %d bytes of ConfigMaps", maxData)
	errTooMuchHere = fmt.Errorf("the rules use more than %d bytes of ConfigMaps for this location alone", maxDataHere)
)

// content is decoded data. ConfigMaps with equal data share it.
type content struct{ values map[string]any }

// contents interns contents for as long as they are in use.
type contents struct {
	mu      sync.Mutex
	byHash  map[[sha256.Size]byte]weak.Pointer[content]
	sweepAt int
}

// get returns nil if the text is not a JSON object.
func (cs *contents) get(text string) *content {
	sum := sha256.Sum256([]byte(text))
	if known := cs.known(sum); known != nil {
		return known
	}
	decoded, err := expression.Decode([]byte(text)) // without the lock: a text is as large as its user wrote it
	values, ok := decoded.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if known := cs.byHash[sum].Value(); known != nil {
		return known
	}
	if cs.byHash == nil {
		cs.byHash = map[[sha256.Size]byte]weak.Pointer[content]{}
	}
	if len(cs.byHash) >= cs.sweepAt {
		maps.DeleteFunc(cs.byHash, func(_ [sha256.Size]byte, w weak.Pointer[content]) bool { return w.Value() == nil })
		cs.sweepAt = max(minSweep, 2*len(cs.byHash))
	}
	made := &content{values}
	cs.byHash[sum] = weak.Make(made)
	return made
}

// usedData is the data of ConfigMaps that rules use: all of it, and the part that depends on the
// location.
type usedData struct {
	all, here uses
	contents  map[string]*content
	// missing holds the ConfigMaps that do not exist, by name.
	missing map[string]string
}

// known returns the content with a sum; nil if it is not kept.
func (cs *contents) known(sum [sha256.Size]byte) *content {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.byHash[sum].Value()
}

// used returns the used part of data. It decodes only ConfigMaps that are used.
func (e *Engine) used(variables uses, data []Data) usedData {
	u := usedData{all: variables, here: variables.byLocation(), contents: map[string]*content{}}
	for _, d := range data {
		if !variables.mayUse(d.Name) {
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

// pick returns the selected part of the ConfigMaps.
func (u usedData) pick(selected uses) map[string]any {
	all := map[string]any{}
	for name, c := range u.contents {
		all[name] = c.values
	}
	picked, _ := selected.pick(all).(map[string]any)
	return picked
}

// into adds the data that is used at all locations alike to a text; ok is false if it is too large.
func (u usedData) into(t *text) (ok bool) {
	if u.all.none() {
		return true
	}
	picked := u.pick(u.all.resolve(nil))
	if sizeOf(picked) > maxData {
		return false
	}
	t.Data, t.Missing = expression.Encode(picked), u.missing
	return true
}

// addNeeds adds the data that is used only at one location to its needs; the value false means that
// it is too large.
func (u usedData) addNeeds(values, needs map[string]any) {
	if u.here.none() {
		return
	}
	picked := u.pick(u.here.resolve(values))
	if sizeOf(picked) > maxDataHere {
		needs[varData] = false
		return
	}
	needs[varData] = picked
}

// takeData sets the data for expressions: the shared data of a text, which it does not change, and
// the data for the location. tooMuch reports whether the latter exceeds its limit.
func (r *run) takeData(common map[string]any) (tooMuch bool) {
	needed, came := r.ofLocation[varData]
	delete(r.ofLocation, varData)
	here, ok := needed.(map[string]any)
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

// explain adds the missing ConfigMaps that a rule uses to its error.
func (s *ruleset) explain(rule *rule, err error) error {
	if err == nil || len(s.missing) == 0 {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.missing)) {
		if used := rule.program.uses(); used.mayUse(name) {
			err = fmt.Errorf("%w (data.%s: there is no ConfigMap %s)", err, name, s.missing[name])
		}
	}
	return err
}

// uses returns the data that a program uses; p may be nil.
func (p *program) uses() uses {
	if p == nil {
		return uses{}
	}
	return p.data
}

// undeclared returns a problem if a program uses data that is not among names; p may be nil.
func (p *program) undeclared(expression string, names []string) *problem {
	for field := range p.uses().fields {
		if field.path == "" && !slices.Contains(names, field.name) {
			return &problem{"expression", expression, errors.New("not valid: data." + field.name + " is not among the names of spec.data")}
		}
	}
	return nil
}
