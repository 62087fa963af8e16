package agent

import (
	"strings"
	"sync"

	"orrery.dev/orrery/internal/protocol/key"
)

// places maps identities at the cluster to the objects in spaces.
type places struct {
	placing key.Placing
	// ids are what schedules are about, from what those stand for that have another name in
	// their space. Others can be of each space.
	ids []key.Identity
	// mu guards from, to which tests add while the cluster answers.
	mu   *sync.RWMutex
	from map[key.Identity]key.Object
}

// placesOf are the places of schedules.
func placesOf(p key.Placing) places {
	w := places{placing: p, ids: identities, mu: &sync.RWMutex{}}
	if p == key.Same {
		return w
	}
	w.ids, w.from = nil, map[key.Identity]key.Object{}
	for _, path := range []string{
		"s/core/namespaces/a", "s/" + widgetsCRD.String(), "s/core/configmaps/a/x", "t/core/configmaps/a/x", "s/core/configmaps/b/x",
		"t/core/namespaces/a", "s/batch/jobs/a/j", "t/example.com/widgets/b/w",
		"s/core/configmaps/" + strings.Repeat("long-", 12) + "er/x", "s/core/namespaces/" + strings.Repeat("long-", 12) + "er",
	} {
		o, err := key.ParsePath(path)
		if err != nil {
			panic(err)
		}
		w.ids = append(w.ids, p.TargetIdentity(o))
		w.is(o)
	}
	return w
}

// is records the identity of a space's object at the cluster.
func (w places) is(o key.Object) {
	if target := w.placing.TargetIdentity(o); target != o.Identity {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.from[target] = o
	}
}

// spaceKeys are the keys of all spaces for an identity at the cluster.
func (w places) spaceKeys(id key.Identity) (all []string) {
	w.mu.RLock()
	o, ok := w.from[id]
	w.mu.RUnlock()
	if ok {
		return []string{o.Path()}
	}
	for _, s := range []key.Space{"s", "t"} {
		all = append(all, key.Object{Space: s, Identity: id}.Path())
	}
	return all
}

// placeOf is where the object of a key is.
func (w places) placeOf(k string) key.Identity {
	o, err := key.ParsePath(k)
	if err != nil {
		panic(err)
	}
	return w.placing.TargetIdentity(o)
}
