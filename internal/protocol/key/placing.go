package key

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Placing maps namespaces of spaces to namespaces of a location's cluster: the location's
// spec.namespaces.
type Placing string

const (
	// Same keeps the namespace of every object.
	Same Placing = ""
	// Prefixed maps each namespace of a space to a namespace that only this space uses.
	Prefixed Placing = "Prefixed"
)

const (
	maxLabel = 63
	// placeHash is the number of hash digits in the name of a namespace that is too long: 100 bits.
	placeHash = 20
	// prefixEnd separates a space from its namespace. No space name contains it or ends with a
	// hyphen, so the first one ends the space. No namespace starts with a hyphen, so hashedEnd
	// never starts a namespace.
	prefixEnd, hashedEnd = "--", "---"
)

// TargetIdentity returns the identity in the cluster of an object of a space. With Prefixed, namespaced objects
// and Namespaces of different spaces have different identities.
func (p Placing) TargetIdentity(o Object) Identity {
	id := o.Identity
	switch {
	case p != Prefixed:
	case id.Namespace != "":
		id.Namespace = prefixed(o.Space, id.Namespace)
	case id.Resource == Namespaces:
		id.Name = prefixed(o.Space, id.Name)
	}
	return id
}

// Admits reports whether objects of a kind in a namespace, empty for none, can be kept apart from
// those of other spaces.
func (p Placing) Admits(r Resource, namespace string) bool {
	return p != Prefixed || namespace != "" || r == Namespaces
}

// Located is an object in a cluster: its space, and its identity there.
type Located struct {
	Object
	// Moved is the namespace in the space that the object's namespace in the cluster represents;
	// for a Namespace it is the name. It is empty if both have the same name.
	Moved string
}

// Locate returns an object of a space as it is in the cluster.
func (p Placing) Locate(o Object) Located {
	located := Located{Object: Object{o.Space, p.TargetIdentity(o)}}
	switch {
	case located.Object == o:
	case o.Namespace != "":
		located.Moved = o.Namespace
	default:
		located.Moved = o.Name
	}
	return located
}

// Source returns the object in its space.
func (l Located) Source() Object {
	o := l.Object
	switch {
	case l.Moved == "":
	case o.Namespace != "":
		o.Namespace = l.Moved
	default:
		o.Name = l.Moved
	}
	return o
}

// From returns the object of a space that has an identity in the cluster. It returns false if there
// is none, or if the name of the namespace was too long and can't be reconstructed.
func (p Placing) From(s Space, target Identity) (Object, bool) {
	o := Object{Space: s, Identity: target}
	if p != Prefixed {
		return o, true
	}
	name := &o.Namespace
	if target.Namespace == "" && target.Resource == Namespaces {
		name = &o.Name
	}
	var ok bool
	*name, ok = strings.CutPrefix(*name, string(s)+prefixEnd)
	return o, ok && *name != "" && (*name)[0] != '-' && p.TargetIdentity(o) == target
}

// prefixed returns the namespace in a cluster for a namespace of a space: SPACE--NAMESPACE, or
// SPACE---BEGINNING-HASH if that is too long.
func prefixed(s Space, namespace string) string {
	if name := string(s) + prefixEnd + namespace; len(name) <= maxLabel {
		return name
	}
	sum := sha256.Sum256([]byte(string(s) + "/" + namespace))
	name, hash := string(s)+hashedEnd, strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:placeHash])
	if room := maxLabel - len(name) - placeHash - 1; room > 0 {
		name += namespace[:min(room, len(namespace))] + "-"
	}
	return name + hash
}
