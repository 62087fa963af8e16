package key

import "strings"

// Wide defines the names of objects in views that combine several spaces or locations. Names are
// unique, and each identifies its object.
type Wide struct {
	// Spaces: namespaces are called SPACE--NAMESPACE, and cluster-scoped objects SPACE--NAME.
	Spaces bool
	// Locations: names start with LOCATION and a dot.
	Locations bool
}

// ObjectName returns the name of an object of a space at a location.
func (w Wide) ObjectName(l Location, o Object) (namespace, name string) {
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

// Called is the parsed form of a namespace and a name, each empty if it is not given. Parts that
// are not Wide, or are not given, are empty.
type Called struct {
	Location        Location
	Space           Space
	Namespace, Name string
}

// Split parses a name that At returned. It returns false for a name that At can't return.
// namespaced reports whether the kind is namespaced.
func (w Wide) Split(namespaced bool, namespace, name string) (c Called, ok bool) {
	c.Namespace, c.Name = namespace, name
	if w.Locations && name != "" {
		l, rest, ok := strings.Cut(name, ".")
		if !ok || ValidateName(l) != nil || rest == "" {
			return Called{}, false
		}
		c.Location, c.Name = Location(l), rest
	}
	current := &c.Namespace
	if !namespaced {
		current = &c.Name
	}
	if !w.Spaces || *current == "" {
		return c, true
	}
	s, rest, ok := strings.Cut(*current, prefixEnd)
	if !ok || ValidateName(s) != nil || rest == "" {
		return Called{}, false
	}
	c.Space, *current = Space(s), rest
	return c, true
}
