package upsync

import (
	"crypto/sha256"
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

// uid stands for the UID of an object; zero: none.
type uid [16]byte

func uidOf(text string) (u uid) {
	if text != "" {
		sum := sha256.Sum256([]byte(text))
		copy(u[:], sum[:])
	}
	return u
}

// claimedBy stands for the StatefulSet in a namespace that makes claims of a name, but for
// its end: nothing in a claim says which it is.
func claimedBy(namespace, name string) uid { return uidOf("claims " + namespace + "/" + name) }

// sighting is an object at the target as a list, a watch or an answer shows it.
type sighting struct {
	kind *kind
	meta *ownership.Meta
	raw  string // the whole object; empty: its metadata are all that was shown
	// ours says that the object was placed.
	ours bool
	// owner is what the object belongs to, and of which kind that is (API group and kind).
	owner     uid
	ownerKind [2]string
	// claims are what claims of a StatefulSet are called, but for their ends.
	claims  []uid
	created int64
	since   string
	health  wire.Health
	note    string
	size    int
	hash    uint64
	object  json.RawMessage
}

// sight reads what counts of an object.
func sight(k *kind, o *ownership.Answer, ours bool) *sighting {
	m := &o.Metadata
	s := &sighting{kind: k, meta: m, ours: ours || m.Anybodys(k.Resource, k.Kind)}
	if c := m.Controller(); c != nil {
		group, _ := key.SplitVersion(c.APIVersion)
		s.owner, s.ownerKind = uidOf(c.UID), [2]string{group, c.Kind}
	}
	if k.Resource == key.PersistentVolumeClaims && s.owner == (uid{}) {
		if end := strings.LastIndexByte(m.Name, '-'); end > 0 {
			s.owner = claimedBy(m.Namespace, m.Name[:end])
		}
	}
	if !k.full {
		return s
	}
	s.raw = o.JSON
	root := gjson.Parse(o.JSON)
	s.since = strings.Clone(root.Get("metadata.creationTimestamp").String()) // and not the page that it is of
	s.created = seconds(s.since)
	switch {
	case kubeclient.IsEvent(k.Resource):
		s.event(root)
	case k.Resource == key.StatefulSets:
		for _, t := range root.Get("spec.volumeClaimTemplates.#.metadata.name").Array() {
			s.claims = append(s.claims, claimedBy(m.Namespace, t.String()+"-"+m.Name))
		}
	}
	of := health.Object{APIVersion: k.apiVersion(), Kind: k.Kind, Generation: m.Generation, Deleting: m.DeletionTimestamp != ""}
	if health.Has(k.Resource) {
		of.Spec, of.Status = o.Spec, o.Status
	}
	if !kubeclient.IsEvent(k.Resource) { // it says how others do
		s.health, s.note = health.Of(of)
	}
	s.object = shown(root, k, m.Namespace, m.Name)
	h := fnv.New64a()
	h.Write(s.object)                          // a hash takes every write
	h.Write([]byte(string(s.health) + s.note)) // as above
	s.hash, s.size = h.Sum64(), len(s.object)
	if s.size > wire.MaxReport { // the report goes without it
		s.size = 0
	}
	s.size += len(s.note) + len(m.Name) + reportSize
	return s
}

// reportSize is about what a report takes besides the object.
const reportSize = 300

// event reads what an Event is about, and when it was last seen.
func (s *sighting) event(root gjson.Result) {
	about := root.Get("involvedObject")
	if !about.Exists() {
		about = root.Get("regarding")
	}
	group, _ := key.SplitVersion(about.Get("apiVersion").String())
	s.owner, s.ownerKind = uidOf(about.Get("uid").String()), [2]string{group, about.Get("kind").String()}
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

// shown is the object as it is reported, in a namespace and under a name: with its type, which
// objects of lists do not have, and without what says nothing to others.
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

// shownMeta are the metadata as they are reported.
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

// text is a string in JSON.
func text(s string) string {
	quoted, err := json.Marshal(s)
	if err != nil { // strings can be encoded
		panic(err)
	}
	return string(quoted)
}

// without is a JSON object without a member.
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

// report is what is reported of the object to a space, in which it is called o.
func (s *sighting) report(o key.Object, owner string) *wire.Report {
	r := wire.Report{
		UID: s.meta.UID, Generation: s.meta.Generation, State: wire.Present, Since: s.since,
		Health: s.health, HealthNote: s.note, Owner: owner, Object: s.object,
	}
	if o.Namespace != s.meta.Namespace || o.Name != s.meta.Name {
		r.Object = shown(gjson.Parse(s.raw), s.kind, o.Namespace, o.Name)
	}
	r = r.Fit()
	return &r
}
