package fields

import (
	"bytes"
	"fmt"
	"strings"

	"orrery.dev/orrery/internal/lib/fieldset"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/ownership"
)

// additive are atomic lists to which API servers add elements, and whose order has no meaning.
var additive = map[string]bool{"tolerations": true, "taints": true}

// maxSearched bounds the length of a list whose elements are compared by meaning with
// each other. Elements of longer lists are compared as text only.
const maxSearched = 1000

// Mutated returns the fields in which the answer to an apply differs from the request. Only fields that the
// location's manager owns in the answer count: admission did not cause the loss of a field that the API server
// does not store, and added fields are not ours.
func Mutated(a *ownership.Answer, sent string, l ownership.Owner) ([]string, error) {
	if agrees(sent, a.JSON) {
		return nil, nil
	}
	mine, err := owned(&a.Metadata, l)
	if err != nil {
		return nil, err
	}
	var d differing
	eachCompared(sent, a.JSON, func(path []string, s, answer string, exact bool) bool {
		var p fieldpath.Path
		scope := mine
		for _, name := range path {
			pe := fieldpath.FieldNameElement(name)
			if !fieldset.Contains(scope, pe) {
				return true
			}
			p, scope = append(p, pe), scope.WithPrefix(pe)
		}
		d.value(p, s, answer, scope, exact)
		return true
	})
	return d.fields, nil
}

// differing collects the paths of values that differ in an answer.
type differing struct{ fields []string }

func (d *differing) add(p fieldpath.Path) { d.fields = append(d.fields, p.String()) }

// value compares the request with the answer at a path; owned is the set of our fields below the path.
func (d *differing) value(p fieldpath.Path, sent, answer string, owned *fieldpath.Set, exact bool) {
	if meansSame(sent, answer, exact, len(p)) {
		return
	}
	apart := answer != "" && sent[0] == answer[0] && len(fieldset.Children(owned)) > 0
	switch {
	case apart && sent[0] == '{':
		d.members(p, sent, answer, owned, exact)
	case apart && sent[0] == '[' && hasParts(owned, isElement):
		d.elements(p, sent, answer, owned)
	case apart && sent[0] == '[':
		d.set(p, sent, answer)
	case answer != "" && sent[0] == '[' && answer[0] == '[' && additive[nameOf(p)]:
		d.set(p, sent, answer)
	default:
		d.add(p)
	}
}

func nameOf(p fieldpath.Path) string {
	if last := p[len(p)-1]; last.FieldName != nil {
		return *last.FieldName
	}
	return ""
}

func (d *differing) members(p fieldpath.Path, sent, answer string, owned *fieldpath.Set, exact bool) {
	there := membersOf(answer)
	for _, m := range membersOf(sent).all {
		if pe := fieldpath.FieldNameElement(m.name); fieldset.Contains(owned, pe) {
			d.value(append(p.Copy(), pe), m.value, there.get(m.name), owned.WithPrefix(pe), exact)
		}
	}
}

// elements compares list-maps: lists whose elements are identified by list-map keys.
func (d *differing) elements(p fieldpath.Path, sent, answer string, owned *fieldpath.Set) {
	there := newListed(keys(owned), listOf(answer))
	for _, s := range listOf(sent) {
		candidates := there.like(s)
		if len(candidates) == 0 {
			d.add(append(p.Copy(), there.key(s)))
			continue
		}
		first := candidates[0]
		for _, c := range candidates { // several, if the request has not all list-map keys
			if meansSame(s, c, false, len(p)+1) {
				first = ""
			}
		}
		if first == "" {
			continue
		}
		if pe := there.key(first); fieldset.Contains(owned, pe) {
			d.value(append(p.Copy(), pe), s, first, owned.WithPrefix(pe), false)
		}
	}
}

// set compares sets: lists whose elements are identified by their whole value.
func (d *differing) set(p fieldpath.Path, sent, answer string) {
	theirs := listOf(answer)
	search := theirs
	if len(theirs) > maxSearched {
		search = nil
	}
	exactly := map[string]bool{}
	for _, a := range theirs {
		exactly[a] = true
	}
	for _, s := range listOf(sent) {
		found := exactly[s]
		for i := 0; i < len(search) && !found; i++ {
			found = meansSame(s, search[i], false, len(p)+1)
		}
		if !found {
			d.add(p)
			return
		}
	}
}

// listed finds elements of a list by their list-map keys.
type listed struct {
	names    []string // of the list-map keys
	elements []string
	byNames  map[string]map[string][]string // elements by the names of given keys, and by the values of these
}

func newListed(names, elements []string) *listed {
	return &listed{names: names, elements: elements, byNames: map[string]map[string][]string{}}
}

// like returns the elements that have the list-map keys of a requested element. Keys that it does not have may
// have any value, since the API server sets their defaults.
func (l *listed) like(sent string) []string {
	var given []string
	fields := membersOf(sent)
	for _, name := range l.names {
		if fields.get(name) != "" {
			given = append(given, name)
		}
	}
	which := strings.Join(given, "\x00")
	index, ok := l.byNames[which]
	if !ok {
		index = map[string][]string{}
		for _, e := range l.elements {
			k := keyText(membersOf(e), given)
			index[k] = append(index[k], e)
		}
		l.byNames[which] = index
	}
	return index[keyText(fields, given)]
}

func keyText(fields members, names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteString(gjson.Parse(fields.get(name)).String())
		b.WriteByte(0)
	}
	return b.String()
}

// key returns the path element that identifies an element by its list-map keys.
func (l *listed) key(element string) fieldpath.PathElement {
	fields := membersOf(element)
	var key value.FieldList
	for _, name := range l.names {
		if v := fields.get(name); v != "" {
			key = append(key, value.Field{Name: name, Value: value.NewValueInterface(keyValue(gjson.Parse(v)))})
		}
	}
	key.Sort()
	return fieldpath.PathElement{Key: &key}
}

func keyValue(v gjson.Result) any {
	if v.Type == gjson.Number && !strings.ContainsAny(v.Raw, ".eE") {
		return v.Int()
	}
	return v.Value()
}

// maxNamed bounds how many fields a message names.
const maxNamed = 8

// Lost returns the fields that the location's manager owns in then but not in now.
func Lost(then, now *ownership.Meta, l ownership.Owner) ([]string, error) {
	all, err := owned(then, l)
	if err != nil {
		return nil, err
	}
	kept, err := owned(now, l)
	if err != nil {
		return nil, err
	}
	var lost []string
	// A manager that refreshes the log position, or writes only ownership metadata, owns these fields by an
	// update instead of an apply.
	kept.Insert(fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.LogAnnotation))
	if now.Labels[v1alpha1.LocationLabel] == string(l) {
		kept.Insert(fieldpath.MakePathOrDie("metadata", "labels", v1alpha1.LocationLabel))
	}
	all.Difference(kept).Leaves().Iterate(func(p fieldpath.Path) { lost = append(lost, p.String()) })
	return lost, nil
}

// owned returns the set of fields that the location's manager has applied in an object.
func owned(m *ownership.Meta, l ownership.Owner) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	for i := range m.ManagedFields {
		f := &m.ManagedFields[i]
		if !f.AppliedBy(l.Manager()) {
			continue
		}
		if err := set.FromJSON(bytes.NewReader(f.FieldsV1)); err != nil {
			return nil, fmt.Errorf("decode managed fields: %w", err)
		}
	}
	return set, nil
}

// Listing names the first few fields, for a message.
func Listing(fields []string) string {
	more := ""
	if n := len(fields) - maxNamed; n > 0 {
		fields, more = fields[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return strings.Join(fields, ", ") + more
}
