package read

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// genReport makes what a location says of an object, or that it says nothing any more.
func genReport(t *rapid.T, now map[string]written, o sample) table.Update {
	object, err := key.ParseObject(o.key())
	if err != nil {
		t.Fatal(err)
	}
	target := key.Report{
		Location: rapid.SampledFrom([]key.Location{"l1", "l1", "l2"}).Draw(t, "reported by"),
		Origin:   rapid.SampledFrom([]key.Origin{key.Placed, key.Placed, key.Upsynced, key.Owned}).Draw(t, "origin"), Object: object,
	}
	if _, ok := now[target.Key()]; ok && rapid.IntRange(0, 2).Draw(t, "no more") == 0 {
		return table.Update{Key: target.Key()}
	}
	report := wire.Report{
		UID: "uid-" + o.name, State: rapid.SampledFrom([]wire.State{wire.Applied, wire.Applied, wire.Failed, wire.Removing, wire.Removed, wire.Orphaned}).Draw(t, "state"),
		Generation: 3, Message: rapid.SampledFrom([]string{"", "why"}).Draw(t, "message"), Since: "2026-01-02T03:04:05Z",
		Health: rapid.SampledFrom([]wire.Health{"", wire.Healthy, wire.Degraded}).Draw(t, "health"),
	}
	if rapid.IntRange(0, 5).Draw(t, "of another") == 0 {
		report.UID = "another"
	}
	if target.Origin == key.Placed {
		report.Status = json.RawMessage(rapid.SampledFrom([]string{`{"ready":1}`, `{"ready":2}`}).Draw(t, "status"))
		if w, ok := now[o.key()]; ok && rapid.IntRange(0, 2).Draw(t, "in step") > 0 {
			travelled, err := known()[o.gvr].Travel(w.value)
			if err != nil {
				t.Fatal(err)
			}
			report.Digest = wire.SumOf(travelled)
		}
	} else {
		report.State = wire.Present
		o.labels = map[string]string{"app": rapid.SampledFrom([]string{"web", "db"}).Draw(t, "app there"), "orrery.dev/location": "theirs"}
		o.content = map[string]any{"data": map[string]any{"at": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "data there")}, "status": map[string]any{"x": 1}}
		report.Object = o.value()
		if o.gvr == widgetsV1 && rapid.Bool().Draw(t, "in v2") {
			report.Object = json.RawMessage(strings.Replace(string(report.Object), "example.com/v1", "example.com/v2", 1))
		}
	}
	value, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	return table.Update{Key: target.Key(), Value: value}
}

// reportedAt is what an angle on the view of reports shows of a state.
func reportedAt(values map[string][]byte, placed map[string]*placedAt, a angle, l reportsLens) map[string]seen {
	kind, result := known()[a.gvr], map[string]seen{}
	first := map[string]key.Report{} // of each place
	for _, origin := range []key.Origin{key.Owned, key.Upsynced, key.Placed} {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			r, err := key.ParseReport(k)
			if err != nil || r.Origin != origin || r.Resource != kind.Resource || l.space != "" && l.space != r.Space || l.location != "" && l.location != r.Location {
				continue
			}
			if origin == key.Placed && gjson.GetBytes(values[k], "state").Str == "Removed" {
				continue
			}
			first[string(r.Location)+"/"+strings.Replace(r.Path(), r.Resource.String()+"/", "", 1)] = r
		}
	}
	selector, err := labels.Parse(a.selector)
	if err != nil {
		panic(err)
	}
	for place, r := range first {
		object, ok := reportedObject(values, placed, a, l, r)
		if !ok {
			continue
		}
		metadata := object["metadata"].(map[string]any)
		set := labels.Set{}
		for name, v := range metadata["labels"].(map[string]any) {
			set[name] = v.(string)
		}
		namespace, _ := metadata["namespace"].(string)
		if selector.Matches(set) && (a.namespace == "" || a.namespace == namespace) && (a.name == "" || a.name == metadata["name"]) {
			text := compact(object)
			result[place] = seen{place: place, content: text, object: text}
		}
	}
	return result
}

// reportedObject returns the whole object of a report.
func reportedObject(values map[string][]byte, placed map[string]*placedAt, a angle, l reportsLens, r key.Report) (object map[string]any, ok bool) {
	kind := known()[a.gvr]
	var report wire.Report
	if err := json.Unmarshal(values[r.Key()], &report); err != nil {
		panic(err)
	}
	content, state := report.Object, report.State
	message, reason := report.Message, report.Reason
	source, isPlaced := values[r.Object.Key()], r.Origin == key.Placed
	var p placement.Place
	assigned := false
	if membership := placed[r.Object.Key()]; isPlaced && source != nil && membership != nil {
		p, assigned = membership.Place(r.Location)
	}
	switch {
	case isPlaced && !assigned:
		content = nil
		if state != wire.Removing && state != wire.Orphaned {
			state, message = wire.Removing, "the location has yet to remove it"
		}
	case isPlaced:
		content = source
		travelled, err := kind.Travel(source)
		if err != nil {
			panic(err)
		}
		if needs := classOf(values, r.Location); needs != "" {
			if travelled, err = followRules(travelled, []placement.Input{{Needs: needs}}); err != nil {
				panic(err)
			}
		}
		switch {
		case p.Owner != "":
			state, message, reason = wire.InConflict, wire.OtherSpace, "OtherSpace"
		case p.Held != "":
			state, message = wire.Held, p.Held
		case report.UID != "uid-"+r.Name || state == wire.Applied && report.Digest != wire.SumOf(travelled):
			state, message = "Pending", ""
		}
	}
	metadata := map[string]any{"labels": map[string]any{}, "annotations": map[string]any{}}
	object = map[string]any{"kind": kind.GVK.Kind, "apiVersion": kind.GVK.GroupVersion().String()}
	if content != nil {
		var made map[string]any
		if err := json.Unmarshal(content, &made); err != nil {
			panic(err)
		}
		if made["apiVersion"] != kind.GVK.GroupVersion().String() {
			return nil, false
		}
		theirs := made["metadata"].(map[string]any)
		for _, name := range []string{"uid", "creationTimestamp", "labels"} {
			if v, ok := theirs[name]; ok {
				metadata[name] = v
			}
		}
		object = made
	} else {
		metadata["uid"] = report.UID
	}
	if isPlaced {
		delete(object, "status")
		if assigned && report.UID == "uid-"+r.Name {
			var status any
			if err := json.Unmarshal(report.Status, &status); err != nil {
				panic(err)
			}
			object["status"] = status
		}
	}
	metadata["name"] = r.Name
	switch {
	case l.wide.Spaces && r.Namespace == "":
		metadata["name"] = string(r.Space) + "--" + r.Name
	case l.wide.Spaces:
		metadata["namespace"] = string(r.Space) + "--" + r.Namespace
	case r.Namespace != "":
		metadata["namespace"] = r.Namespace
	}
	if l.wide.Locations {
		metadata["name"] = fmt.Sprintf("%s.%s", r.Location, metadata["name"])
	}
	for where, fields := range map[string]map[string]string{
		"labels": {"location": string(r.Location), "space": string(r.Space), "state": string(state), "health": string(report.Health)},
		"annotations": {
			"space": string(r.Space), "location": string(r.Location), "source-name": r.Name, "source-namespace": r.Namespace, "origin": string(r.Origin),
			"reason": reason, "message": message, "since": sinceOf(report, state), "reported-generation": "3",
		},
	} {
		to := metadata[where].(map[string]any)
		for name, v := range fields {
			if v != "" {
				to["orrery.dev/"+name] = v
			}
		}
	}
	object["metadata"] = metadata
	return object, true
}

// sinceOf is when a state began, if the location has said so.
func sinceOf(r wire.Report, state wire.State) string {
	if r.State != state {
		return ""
	}
	return r.Since
}
