package read

import (
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"orrery.dev/orrery/internal/hub/engine/placement"
	"orrery.dev/orrery/internal/hub/storage/table"
	"orrery.dev/orrery/internal/protocol/key"
)

// placed is the membership of rows that are assigned to locations.
type placed interface {
	Place(location key.Location) (placement.Place, bool)
}

// IsDesired reports whether a row's object is desired at a location: it is assigned, not held, and
// no object of another space has its place.
func IsDesired(row *table.Row, l key.Location) bool {
	if row.In == nil {
		return false
	}
	p, ok := row.In.(placed)
	if !ok {
		return row.In.Includes(l)
	}
	place, ok := p.Place(l)
	return ok && place.Held == "" && place.Owner == ""
}

// placed returns the JSON of a row's object with its name at the location. It does not change
// object.
func (l display) placed(row *table.Row, object []byte) ([]byte, error) {
	if l.placing == key.Same {
		return object, nil
	}
	namespace, name := nameOf(l.placing, row)
	if namespace != "" {
		return sjson.SetBytes(object, "metadata.namespace", namespace)
	}
	if label := `metadata.labels.kubernetes\.io/metadata\.name`; gjson.GetBytes(object, label).Exists() { // Kubernetes sets it to the name
		var err error
		if object, err = sjson.SetBytes(object, label, name); err != nil {
			return nil, err
		}
	}
	return sjson.SetBytes(object, "metadata.name", name)
}

// classAt returns the rendering class of a row's object at a location.
func classAt(row *table.Row, l key.Location) *placement.Class {
	p, ok := row.In.(placed)
	if !ok {
		return nil
	}
	place, _ := p.Place(l)
	return place.Class
}

// nameOf returns the namespace and name of a row's object at a location.
func nameOf(p key.Placing, row *table.Row) (namespace, name string) {
	s, r, rest, _ := key.Split(row.Key)
	namespace, name = key.SplitName(rest)
	identity := p.TargetIdentity(key.Object{Space: s, Identity: key.Identity{Resource: r, Namespace: namespace, Name: name}})
	return identity.Namespace, identity.Name
}
