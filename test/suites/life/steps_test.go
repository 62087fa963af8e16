package life

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// step does one thing in one space.
func (l *life) step(step int) {
	m := l.spaces[l.rng.IntN(len(l.spaces))]
	o := l.aPlace()
	value, label := fmt.Sprintf("%s-%d", l.mark(m), step), l.pick("x", "y")
	steps := []func(){
		func() { l.create(m, o, value, label) },
		func() { l.create(m, o, value, label) },
		func() { l.update(m, o, value, label) },
		func() { l.patches(m, o, value) },
		func() { l.apply(m, o, value, label) },
		func() { l.remove(m, o) },
		func() { l.removeMany(m, o, label) },
		func() { l.get(m, o) },
		func() { l.lists(m, o, label) },
		func() { l.listAsOf(m, o) },
		func() { l.pages(m, o) },
		func() { l.watches(m, o) },
		func() { l.forms(m, o) },
		func() { l.define(m, o) },
		func() { l.outbreak(m, o) },
		func() { l.everyAnswer(m, o) },
	}
	steps[l.rng.IntN(len(steps))]()
}

// other is another space, and what it has in a place, if anything.
func (l *life) other(m *model, o object) (*model, kept) {
	for {
		if other := l.spaces[l.rng.IntN(len(l.spaces))]; other != m {
			return other, other.now[o.path()]
		}
	}
}

func (l *life) create(m *model, o object, value, label string) {
	_, there := m.now[o.path()]
	got := l.send(m, http.MethodPost, o.collection(), asJSON, o.body(value, label, ""))
	if there {
		l.expect(got, http.StatusConflict)
		return
	}
	l.keep(m, o, l.expect(got, http.StatusCreated))
}

// update replaces an object: as it is, or only if it is as it is in another space,
// which it never is.
func (l *life) update(m *model, o object, value, label string) {
	old, there := m.now[o.path()]
	_, foreign := l.other(m, o)
	switch {
	case !there:
		if o.resource == "widgets" {
			return // of what may be created so and what not, others tell
		}
		l.expect(l.send(m, http.MethodPut, o.url(), asJSON, o.body(value, label, `,"resourceVersion":"1"`)), http.StatusNotFound, http.StatusConflict)
	case foreign.uid != "" && l.rng.IntN(2) == 0:
		l.expect(l.send(m, http.MethodPut, o.url(), asJSON, o.body(value, label, fmt.Sprintf(`,"resourceVersion":%q`, foreign.rv))), http.StatusConflict)
		l.allowedUID = foreign.uid // the refusal repeats it
		l.expect(l.send(m, http.MethodPut, o.url(), asJSON, o.body(value, label, fmt.Sprintf(`,"resourceVersion":%q,"uid":%q`, old.rv, foreign.uid))), http.StatusConflict)
		l.allowedUID = ""
	default:
		l.keep(m, o, l.expect(l.send(m, http.MethodPut, o.url(), asJSON, o.body(value, label, fmt.Sprintf(`,"resourceVersion":%q`, old.rv))), http.StatusOK))
	}
}

// patches changes the value by a patch of some type.
func (l *life) patches(m *model, o object, value string) {
	content, body := asMerge, fmt.Sprintf(`{"data":{"v":%q}}`, value)
	switch l.rng.IntN(3) {
	case 0:
		content, body = "application/json-patch+json", fmt.Sprintf(`[{"op":"replace","path":"/data/v","value":%q}]`, value)
	case 1:
		if o.resource == "configmaps" {
			content = "application/strategic-merge-patch+json"
		}
	}
	got := l.send(m, http.MethodPatch, o.url(), content, body)
	if _, there := m.now[o.path()]; !there {
		l.expect(got, http.StatusNotFound)
		return
	}
	l.keep(m, o, l.expect(got, http.StatusOK))
}

func (l *life) apply(m *model, o object, value, label string) {
	got := l.send(m, http.MethodPatch, o.url()+"?fieldManager=life&force=true", asApply, o.body(value, label, ""))
	if _, there := m.now[o.path()]; there {
		l.expect(got, http.StatusOK)
	} else {
		l.expect(got, http.StatusCreated)
	}
	l.keep(m, o, got)
}

// remove deletes an object, or tries to with what another space's is called.
func (l *life) remove(m *model, o object) {
	_, there := m.now[o.path()]
	_, foreign := l.other(m, o)
	if foreign.uid != "" {
		l.allowedUID = foreign.uid // the refusal repeats it
		got := l.send(m, http.MethodDelete, o.url(), asJSON, fmt.Sprintf(`{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":%q}}`, foreign.uid))
		l.allowedUID = ""
		l.expect(got, http.StatusConflict, http.StatusNotFound)
	}
	got := l.send(m, http.MethodDelete, o.url(), "", "")
	if !there {
		l.expect(got, http.StatusNotFound)
		return
	}
	l.expect(got, http.StatusOK)
	delete(m.now, o.path())
	m.wrote(l.revision(m))
}

// removeMany deletes what has a label, one object after the other; no reader sees the
// steps between.
func (l *life) removeMany(m *model, o object, label string) {
	l.expect(l.send(m, http.MethodDelete, o.collection()+"?labelSelector=l%3D"+label, "", ""), http.StatusOK)
	for path := range m.now.within(o.resource, o.namespace, func(_ string, k kept) bool { return k.label == label }) {
		delete(m.now, path)
	}
	m.wrote(l.revision(m))
}

func (l *life) get(m *model, o object) {
	version := l.pick("", "?resourceVersion=0")
	got := l.send(m, http.MethodGet, o.url()+version, "", "")
	old, there := m.now[o.path()]
	if !there {
		l.expect(got, http.StatusNotFound)
		return
	}
	if now := l.read(m, gjson.ParseBytes(l.expect(got, http.StatusOK).raw)); now != old {
		l.wrong("%s of space %s is %+v, the model has %+v", o.path(), m.name, now, old)
	}
}

// lists reads what selectors choose.
func (l *life) lists(m *model, o object, label string) {
	namespace := l.pick("", o.namespace)
	path, chosen := collection(o.resource, namespace)+"?", func(string, kept) bool { return true }
	switch l.rng.IntN(3) {
	case 0:
		path += "labelSelector=l%3D" + label
		chosen = func(_ string, k kept) bool { return k.label == label }
	case 1:
		path += "fieldSelector=metadata.name%3D" + o.name
		chosen = func(p string, _ kept) bool { return strings.HasSuffix(p, "/"+o.name) }
	}
	path += l.pick("", "&resourceVersion=0")
	got := l.expect(l.send(m, http.MethodGet, path, "", ""), http.StatusOK)
	l.same(m, path, l.listed(m, o.resource, got), m.now.within(o.resource, namespace, chosen))
}

// listAsOf lists at an exact revision, at which this space or another one was written.
func (l *life) listAsOf(m *model, o object) {
	other, _ := l.other(m, o)
	from := l.pick(m.name, other.name)
	all := m.past
	if from == other.name {
		all = other.past
	}
	rev := all[l.rng.IntN(len(all))].rev
	want, ok := m.stateAt(rev)
	if !ok {
		return
	}
	path := fmt.Sprintf("%s?resourceVersionMatch=Exact&resourceVersion=%d", collection(o.resource, ""), rev)
	got := l.expect(l.send(m, http.MethodGet, path, "", ""), http.StatusOK)
	l.same(m, path, l.listed(m, o.resource, got), want.within(o.resource, "", nil))
}

// pages reads page by page, and with a token of another space.
func (l *life) pages(m *model, o object) {
	path := collection(o.resource, "") + "?limit=1"
	all, token := state{}, ""
	for {
		got := l.expect(l.send(m, http.MethodGet, path+"&continue="+token, "", ""), http.StatusOK)
		maps.Copy(all, l.listed(m, o.resource, got))
		if token = got.field("metadata.continue").String(); token == "" {
			break
		}
		m.tokens = append(m.tokens, token)
	}
	l.same(m, path, all, m.now.within(o.resource, "", nil))
	other, _ := l.other(m, o)
	if len(other.tokens) == 0 {
		return
	}
	foreign := other.tokens[l.rng.IntN(len(other.tokens))]
	raw, err := base64.RawURLEncoding.DecodeString(foreign)
	if err != nil {
		l.wrong("a continue token %q: %v", foreign, err)
	}
	then, _ := m.stateAt(gjson.GetBytes(raw, "rv").Int())
	got := l.expect(l.send(m, http.MethodGet, collection(o.resource, "")+"?limit=5&continue="+foreign, "", ""), http.StatusOK, http.StatusGone)
	for p, k := range l.listed(m, o.resource, got) {
		if then[p] != k {
			l.wrong("with a token of %s, space %s lists %s as %+v, it was %+v", other.name, m.name, p, k, then[p])
		}
	}
}

// watches compares the events of a watch, from a revision of a write to any space, with the model.
func (l *life) watches(m *model, o object) {
	from := l.spaces[l.rng.IntN(len(l.spaces))].past
	rev := from[l.rng.IntN(len(from))].rev
	old, ok := m.stateAt(rev)
	if !ok {
		return
	}
	have, want := old.within(o.resource, "", nil), m.now.within(o.resource, "", nil)
	changes := 0
	for _, p := range m.past {
		if p.rev > rev {
			changes++
		}
	}
	if changes == 0 || fmt.Sprint(have) == fmt.Sprint(want) {
		return // nothing may come for long
	}
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	path := fmt.Sprintf("/spaces/%s%s?watch=true&resourceVersion=%d", m.name, collection(o.resource, ""), rev)
	resp, err := l.hub.open(ctx, http.MethodGet, path, "", "")
	if err != nil {
		l.wrong("watch: %v", err)
	}
	defer resp.Body.Close()
	in := bufio.NewReader(resp.Body)
	for seen := 0; fmt.Sprint(have) != fmt.Sprint(want); seen++ {
		line, err := in.ReadString('\n')
		if err != nil || seen > 2*stepsOfLife {
			l.wrong("%s ended with %v after %d events: it has %v, the model %v", path, err, seen, have, want)
		}
		for _, other := range l.spaces {
			if other != m && strings.Contains(line, l.mark(other)) {
				l.wrong("%s shows something of %s: %s", path, other.name, line)
			}
		}
		event := gjson.Parse(line)
		v := event.Get("object")
		p := o.resource + "/" + v.Get("metadata.namespace").String() + "/" + v.Get("metadata.name").String()
		switch event.Get("type").String() {
		case "ADDED", "MODIFIED":
			have[p] = l.read(m, v)
		case "DELETED":
			delete(have, p)
		default:
			l.wrong("%s: %s", path, line)
		}
	}
}

// forms lists as a table and as metadata.
func (l *life) forms(m *model, o object) {
	want := m.now.within(o.resource, "", nil)
	ctx := l.ctx
	defer func() { l.ctx = ctx }()
	l.ctx = context.WithValue(ctx, acceptKey{}, "application/json;as=Table;g=meta.k8s.io;v=v1")
	rows := l.expect(l.send(m, http.MethodGet, collection(o.resource, ""), "", ""), http.StatusOK).field("rows").Array()
	l.ctx = context.WithValue(ctx, acceptKey{}, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	items := l.expect(l.send(m, http.MethodGet, collection(o.resource, ""), "", ""), http.StatusOK).field("items").Array()
	if len(rows) != len(want) || len(items) != len(want) {
		l.wrong("space %s has %d rows and %d items, the model %d", m.name, len(rows), len(items), len(want))
	}
	for i, item := range items {
		p := o.resource + "/" + item.Get("metadata.namespace").String() + "/" + item.Get("metadata.name").String()
		if uid := item.Get("metadata.uid").String(); want[p].uid != uid || rows[i].Get("object.metadata.uid").String() != uid {
			l.wrong("space %s shows %s and %s, the model has %v", m.name, item, rows[i], want[p])
		}
	}
}

// define makes a CRD of a space refuse what another space's CRD allows.
func (l *life) define(m *model, o object) {
	size := "7"
	if m.number {
		size = `"seven"`
	}
	body := fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"generateName":"w-"},"size":%s}`, size)
	l.expect(l.send(m, http.MethodPost, collection("widgets", o.namespace)+"?dryRun=All", asJSON, body), http.StatusUnprocessableEntity)
}

// outbreak asks for another space's objects by names that try to leave the path of their
// own space.
func (l *life) outbreak(m *model, o object) {
	other, _ := l.other(m, o)
	into := strings.TrimPrefix(o.url(), "/")
	for _, path := range []string{
		"/../" + other.name + "/" + into,
		"/%2e%2e/" + other.name + "/" + into,
		"/..%2f" + other.name + "%2f" + into,
		"/./" + "../" + other.name + "/" + into,
		"//../" + other.name + "/" + into,
		"%2f..%2f" + other.name + "/" + into,
		o.collection() + "/../../../../../../" + other.name + "/" + into,
		o.collection() + "/..%2f..%2f..%2f..%2f" + other.name + "%2fcore%2fconfigmaps%2fdefault%2f" + o.name,
		o.collection() + "/%2e%2e%2f" + o.name,
		o.collection() + "/..",
		o.collection() + "/.",
		"/api/v1/namespaces/..%2f..%2f" + other.name + "/configmaps/" + o.name,
		"/api/v1/namespaces/%2e%2e/configmaps/" + o.name,
		"/api/v1/namespaces/default/configmaps%2f..%2f..%2f..%2f" + other.name,
		"/api/v1//namespaces//default//configmaps//" + o.name + "/../../" + other.name,
	} {
		method := l.pick(http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodPost)
		content, body := "", ""
		if method != http.MethodGet && method != http.MethodDelete {
			content, body = asJSON, o.body(l.mark(m), "x", "")
		}
		if method == http.MethodPatch {
			content, body = asMerge, `{"data":{"v":"`+l.mark(m)+`"}}`
		}
		if got := l.send(m, method, path, content, body); got.code < 300 && got.field("kind").String() != "Status" {
			l.wrong("%s %s: %s", method, path, got)
		}
	}
}

// everyAnswer checks that /spaces/* refuses every write.
func (l *life) everyAnswer(m *model, o object) {
	method := l.pick(http.MethodPut, http.MethodDelete, http.MethodPatch)
	content, body := asJSON, o.body(l.mark(m), "x", "")
	if method == http.MethodPatch {
		content = asMerge
	}
	got := l.send(nil, method, "/spaces/*"+o.url(), content, body)
	if got.code < http.StatusBadRequest {
		l.wrong("%s to all spaces: %s", method, got)
	}
	got = l.send(nil, http.MethodGet, "/spaces/*"+collection(o.resource, "")+"?limit=1&resourceVersion="+strconv.FormatInt(m.past[0].rev, 10)+"&resourceVersionMatch=NotOlderThan", "", "")
	l.expect(got, http.StatusOK)
}
