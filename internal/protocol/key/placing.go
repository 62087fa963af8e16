package key

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// Placing is where at its cluster a location puts what it gets: the location's
// spec.namespaces.
type Placing string

const (
	// Same puts every object where it is in its space.
	Same Placing = ""
	// Prefixed puts what is in a namespace of a space into a namespace of that space alone.
	Prefixed Placing = "Prefixed"
)

const (
	maxLabel = 63
	// placeHash is how many digits of a hash stand for a namespace that is too long: 100 bits.
	placeHash = 20
	// prefixEnd is between a space and its namespace. No space has it in its name, nor ends
	// with a hyphen, so the first one is the end of the space. No namespace begins with a
	// hyphen, so what follows hashedEnd is none.
	prefixEnd, hashedEnd = "--", "---"
)

// At is the identity at the cluster of an object of a space. Objects of different spaces, of
// kinds with namespaces or Namespaces themselves, have different ones if they are Prefixed.
func (p Placing) At(o Object) Identity {
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

// Admits says whether what is in a namespace, empty for none, of a kind can be kept apart
// from what other spaces have.
func (p Placing) Admits(r Resource, namespace string) bool {
	return p != Prefixed || namespace != "" || r == Namespaces
}

// Located is an object as it is at a cluster: its space, and its identity there.
type Located struct {
	Object
	// Moved is the namespace of the space that the object's namespace at the cluster stands
	// for, or that it is; empty if they have the same name.
	Moved string
}

// Locate is an object of a space as it is at the cluster.
func (p Placing) Locate(o Object) Located {
	at := Located{Object: Object{o.Space, p.At(o)}}
	switch {
	case at.Object == o:
	case o.Namespace != "":
		at.Moved = o.Namespace
	default:
		at.Moved = o.Name
	}
	return at
}

// Source is the object in its space.
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

// From is the object of a space that would be at the cluster under an identity; false: there
// is none, or where namespaces are Prefixed, the name of its namespace is too long to tell it
// from the one at the cluster.
func (p Placing) From(s Space, at Identity) (Object, bool) {
	o := Object{Space: s, Identity: at}
	if p != Prefixed {
		return o, true
	}
	name := &o.Namespace
	if at.Namespace == "" && at.Resource == Namespaces {
		name = &o.Name
	}
	var ok bool
	*name, ok = strings.CutPrefix(*name, string(s)+prefixEnd)
	return o, ok && *name != "" && (*name)[0] != '-' && p.At(o) == at
}

// prefixed is the namespace at a cluster of a namespace of a space: SPACE--NAMESPACE, or, if
// that is too long, SPACE---BEGINNING-HASH.
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
