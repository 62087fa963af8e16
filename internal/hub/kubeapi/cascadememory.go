package kubeapi

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// cascadeTime is how long the hub remembers the objects of a deleted Namespace.
	cascadeTime = 2 * time.Minute
	// maxCascades is the number of deleted Namespaces that the hub remembers of one space.
	maxCascades = 8
	// maxRemembered is the number of objects that the hub remembers of all deleted Namespaces.
	maxRemembered = 64_000
)

// cascade identifies the deletion of a Namespace by one run of kubectl.
type cascade struct {
	user, session, namespace string
	space                    key.Space
}

// cascadedObjects are the UIDs of objects that were deleted with their Namespace.
type cascadedObjects map[key.Identity]types.UID

// cascadeMemory holds the objects of deleted Namespaces for cascadeTime. Its size is bounded. If it is full, the
// space with the most objects loses its oldest Namespace, so that no space can displace one that uses less.
//
// It is safe for concurrent use.
type cascadeMemory struct {
	mu     sync.Mutex
	spaces map[key.Space]*cascadesOfSpace
	// size is the number of objects of all spaces.
	size int
}

// cascadesOfSpace are the deleted Namespaces of one space, the oldest first.
type cascadesOfSpace struct {
	entries []remembered
	size    int
}

type remembered struct {
	id      cascade
	objects cascadedObjects
	until   time.Time
}

func newCascadeMemory() *cascadeMemory {
	return &cascadeMemory{spaces: map[key.Space]*cascadesOfSpace{}}
}

// get returns the objects of a deleted Namespace; nil if the memory does not have them.
func (m *cascadeMemory) get(id cascade, now time.Time) cascadedObjects {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spaces[id.space]
	if s == nil {
		return nil
	}
	for i := len(s.entries) - 1; i >= 0; i-- {
		if e := &s.entries[i]; e.id == id && now.Before(e.until) {
			return e.objects
		}
	}
	return nil
}

// add remembers the objects of a deleted Namespace. It drops those of other Namespaces to keep the bounds.
func (m *cascadeMemory) add(id cascade, objects cascadedObjects, now time.Time) {
	if len(objects) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for space, s := range m.spaces {
		for len(s.entries) > 0 && !now.Before(s.entries[0].until) {
			m.dropOldest(space)
		}
	}
	s := m.spaces[id.space]
	if s == nil {
		s = &cascadesOfSpace{}
		m.spaces[id.space] = s
	}
	s.entries = append(s.entries, remembered{id, objects, now.Add(cascadeTime)})
	s.size += len(objects)
	m.size += len(objects)
	if len(s.entries) > maxCascades {
		m.dropOldest(id.space)
	}
	for m.size > maxRemembered {
		m.dropOldest(m.largest(id.space))
	}
}

// largest returns the space with the most objects, and preferred if several have the most.
func (m *cascadeMemory) largest(preferred key.Space) key.Space {
	largest, most := preferred, 0
	if s := m.spaces[preferred]; s != nil {
		most = s.size
	}
	for space, s := range m.spaces {
		if s.size > most {
			largest, most = space, s.size
		}
	}
	return largest
}

// dropOldest drops the oldest Namespace of a space that has one.
func (m *cascadeMemory) dropOldest(space key.Space) {
	s := m.spaces[space]
	size := len(s.entries[0].objects)
	s.entries[0] = remembered{}
	s.entries = s.entries[1:]
	s.size -= size
	m.size -= size
	if len(s.entries) == 0 {
		delete(m.spaces, space)
	}
}
