package upsync

import (
	"encoding/json"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/agent/health"
	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// sighting is the state of an object at the target in a list, a watch event or a response.
type sighting struct {
	kind *kind
	meta *ownership.Meta
	raw  string // the whole object; empty if only its metadata was read
	// placed is true if a Placement put the object there.
	placed bool
	// owner is the owner of the object, and ownerKind its API group and kind.
	owner     uid
	ownerKind [2]string
	// claims are the prefixes of the PersistentVolumeClaims that a StatefulSet creates.
	claims  []uid
	created int64
	since   string
	health  wire.Health
	detail  string
	size    int
	hash    uint64
	object  json.RawMessage
}

// sight reads an object of a kind. placed is true if the store has a record of it.
func sight(k *kind, o *ownership.Answer, placed bool) *sighting {
	m := &o.Metadata
	s := &sighting{kind: k, meta: m, placed: placed || m.Anybodys(k.Resource, k.Kind)}
	if c := m.Controller(); c != nil {
		group, _ := key.SplitVersion(c.APIVersion)
		s.owner, s.ownerKind = uidOf(c.UID), [2]string{group, c.Kind}
	}
	if k.Resource == key.PersistentVolumeClaims && s.owner == (uid{}) {
		if end := strings.LastIndexByte(m.Name, '-'); end > 0 {
			s.owner = claimPrefix(m.Namespace, m.Name[:end])
		}
	}
	if !k.full {
		return s
	}
	s.raw = o.JSON
	root := gjson.Parse(o.JSON)
	s.since = strings.Clone(root.Get("metadata.creationTimestamp").String()) // so that the page of the list can be freed
	s.created = seconds(s.since)
	switch {
	case kubeclient.IsEvent(k.Resource):
		s.event(root)
	case k.Resource == key.StatefulSets:
		for _, t := range root.Get("spec.volumeClaimTemplates.#.metadata.name").Array() {
			s.claims = append(s.claims, claimPrefix(m.Namespace, t.String()+"-"+m.Name))
		}
	}
	input := health.Object{APIVersion: k.apiVersion(), Kind: k.Kind, Generation: m.Generation, Deleting: m.DeletionTimestamp != ""}
	if health.HasStatus(k.Resource) {
		input.Spec, input.Status = o.Spec, o.Status
	}
	if !kubeclient.IsEvent(k.Resource) { // an Event has no health of its own
		s.health, s.detail = health.Assess(input)
	}
	s.object = shown(root, k, m.Namespace, m.Name)
	h := fnv.New64a()
	h.Write(s.object)                            // a hash takes every write
	h.Write([]byte(string(s.health) + s.detail)) // as above
	s.hash, s.size = h.Sum64(), len(s.object)
	if s.size > wire.MaxReport { // the report goes without it
		s.size = 0
	}
	s.size += len(s.detail) + len(m.Name) + reportSize
	return s
}

// reportSize is the approximate size of a report without the object.
const reportSize = 300

// event reads the object of an Event as its owner, and the time of its last observation.
func (s *sighting) event(root gjson.Result) {
	regarding := root.Get("involvedObject")
	if !regarding.Exists() {
		regarding = root.Get("regarding")
	}
	group, _ := key.SplitVersion(regarding.Get("apiVersion").String())
	s.owner, s.ownerKind = uidOf(regarding.Get("uid").String()), [2]string{group, regarding.Get("kind").String()}
	for _, last := range []string{"series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "eventTime"} {
		s.created = max(s.created, seconds(root.Get(last).String()))
	}
}

func seconds(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return t.Unix()
}

// shown returns the reported form of an object, with a namespace and a name. It adds the type, which objects of
// lists do not have, and leaves out metadata that has no meaning outside the cluster.
func shown(root gjson.Result, k *kind, namespace, name string) json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"apiVersion":` + text(k.apiVersion()) + `,"kind":` + text(k.Kind))
	root.ForEach(func(member, value gjson.Result) bool {
		switch member.Str {
		case "apiVersion", "kind":
		case "metadata":
			b.WriteString(`,"metadata":` + shownMeta(value, namespace, name))
		default:
			b.WriteString("," + member.Raw + ":" + value.Raw)
		}
		return true
	})
	b.WriteString("}")
	return json.RawMessage(b.String())
}

// shownMeta returns the reported form of metadata.
func shownMeta(meta gjson.Result, namespace, name string) string {
	var b strings.Builder
	add := func(member, value string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(member + ":" + value)
	}
	meta.ForEach(func(member, value gjson.Result) bool {
		switch member.Str {
		case "managedFields", "resourceVersion":
		case "annotations":
			if left := without(value, corev1.LastAppliedConfigAnnotation); left != "{}" {
				add(member.Raw, left)
			}
		case "name":
			add(member.Raw, text(name))
		case "namespace":
			add(member.Raw, text(namespace))
		default:
			add(member.Raw, value.Raw)
		}
		return true
	})
	return "{" + b.String() + "}"
}

// text returns a string as JSON.
func text(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil { // strings can be encoded
		panic(err)
	}
	return string(quoted)
}

// without returns a JSON object without a member.
func without(object gjson.Result, member string) string {
	var b strings.Builder
	object.ForEach(func(name, value gjson.Result) bool {
		if name.Str == member {
			return true
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(name.Raw + ":" + value.Raw)
		return true
	})
	return "{" + b.String() + "}"
}

// report returns the report of the object to a space, which has it as o. owner is the identity of the placed
// object to which it belongs, if any.
func (s *sighting) report(o key.Object, owner string) *wire.Report {
	r := wire.Report{
		UID: s.meta.UID, Generation: s.meta.Generation, State: wire.Present, Since: s.since,
		Health: s.health, HealthNote: s.detail, Owner: owner, Object: s.object,
	}
	if o.Namespace != s.meta.Namespace || o.Name != s.meta.Name {
		r.Object = shown(gjson.Parse(s.raw), s.kind, o.Namespace, o.Name)
	}
	r = r.Fit()
	return &r
}
