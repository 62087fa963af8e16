package key

import "strings"

// Wide says how objects of several spaces, or locations, are called where they are shown
// together: so that no two have one name, and each name says which object it is.
type Wide struct {
	// Spaces: what is in a namespace is in SPACE--NAMESPACE, what is in none is called
	// SPACE--NAME.
	Spaces bool
	// Locations: names begin with LOCATION and a dot.
	Locations bool
}

// At is what an object of a space is called, as it is at a location.
func (w Wide) At(l Location, o Object) (namespace, name string) {
	namespace, name = o.Namespace, o.Name
	switch {
	case !w.Spaces:
	case namespace != "":
		namespace = string(o.Space) + prefixEnd + namespace
	default:
		name = string(o.Space) + prefixEnd + name
	}
	if w.Locations {
		name = string(l) + "." + name
	}
	return namespace, name
}

// Called is what a namespace and a name stand for, each empty if it is not given. What is
// not Wide, or not said, is empty.
type Called struct {
	Location        Location
	Space           Space
	Namespace, Name string
}

// Split takes apart what At has made. It returns false for what it makes of nothing. namespaced
// says that the kind of the object is.
func (w Wide) Split(namespaced bool, namespace, name string) (c Called, ok bool) {
	c.Namespace, c.Name = namespace, name
	if w.Locations && name != "" {
		l, rest, ok := strings.Cut(name, ".")
		if !ok || ValidateName(l) != nil || rest == "" {
			return Called{}, false
		}
		c.Location, c.Name = Location(l), rest
	}
	of := &c.Namespace
	if !namespaced {
		of = &c.Name
	}
	if !w.Spaces || *of == "" {
		return c, true
	}
	s, rest, ok := strings.Cut(*of, prefixEnd)
	if !ok || ValidateName(s) != nil || rest == "" {
		return Called{}, false
	}
	c.Space, *of = Space(s), rest
	return c, true
}
