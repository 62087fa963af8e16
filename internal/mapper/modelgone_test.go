package mapper

import (
	"fmt"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/wire"
)

// A hub that has its locations confirm that an object is gone, in the model: it says so in
// the content until the location has.

// leave has the hub desire that an object be gone, and be told.
func (w *world) leave(k string, id key.Identity, was wire.Frame) {
	uid := "u-" + k[:1]
	switch {
	case was.Put != nil:
		uid = was.Put.UID
	case was.Hold != nil:
		uid = was.Hold.UID
	}
	w.tell("gone %s uid %s", k, uid)
	version := "v1"
	if g := id.APIGroup(); g != "" {
		version = g + "/v1"
	}
	w.hub.write(wire.Frame{Gone: &wire.Gone{
		Key: k, UID: uid, Digest: wire.SumOf([]byte("gone")), APIVersion: version, Kind: servedKind(id.Resource).kind,
	}})
}

// confirmed has the hub forget an object that a location has confirmed to be gone. It must
// be: nothing at the cluster may prove to be of it.
func (w *world) confirmed(g *wire.Gone) {
	o, err := key.ParsePath(g.Key)
	if err != nil {
		panic(err)
	}
	w.tell("confirmed %s uid %s", g.Key, g.UID)
	w.cluster.mu.Lock()
	there := w.cluster.objects[o.Identity.String()]
	if there != nil && !there.foreign && there.meta("labels", v1alpha1.LocationLabel) != "" &&
		there.meta("annotations", v1alpha1.SourceUIDAnnotation) == g.UID && there.meta("labels", v1alpha1.SpaceLabel) == string(o.Space) {
		w.bad = append(w.bad, fmt.Sprintf("%s was said to be gone, and is there", g.Key))
	}
	w.cluster.mu.Unlock()
	w.hub.write(del(g.Key, wire.Deleted))
	// Another space's object of the identity takes its place.
	content := w.hub.content(w.hub.revision)
	for _, other := range spaceKeys(o.Identity) {
		if f := content[other]; f.Conflict != nil {
			w.put(other, o.Identity, wire.Frame{}, 1, 1)
		}
	}
}
