package upsync

import (
	"errors"
	"fmt"

	kjson "sigs.k8s.io/json"

	"orrery.dev/orrery/internal/lib/jsonscan"
	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/ownership"
	"orrery.dev/orrery/internal/protocol/wire"
)

// Check returns an error if a report of an object that was not placed is invalid: if its content is
// not exactly the object of its key as a cluster shows it, or if Orrery has placed it. placing is
// the namespace mapping of the location. An agent can be compromised, and clients read the content
// of its reports as objects.
func Check(r key.Report, report *wire.Report, placing key.Placing) error {
	switch {
	case report.State != wire.Present:
		return fmt.Errorf("state %q: want %q", report.State, wire.Present)
	case report.UID == "":
		return errors.New("no UID")
	case report.Status != nil:
		return errors.New("a status beside the object")
	case (r.Origin == key.Owned) != (report.Owner != ""):
		return errors.New("what is owned has an owner, and nothing else")
	}
	if len(report.Object) == 0 {
		if report.ObjectBytes > 0 { // too large for a report
			return nil
		}
		return errors.New("no object")
	}
	return checkObject(r, report, placing)
}

func checkObject(r key.Report, report *wire.Report, placing key.Placing) error {
	if jsonscan.Deeper(report.Object, wire.MaxObjectDepth) {
		return fmt.Errorf("object: it nests deeper than %d levels", wire.MaxObjectDepth)
	}
	var object map[string]any
	strict, err := kjson.UnmarshalStrict(report.Object, &object, kjson.DisallowDuplicateFields)
	if err != nil {
		return fmt.Errorf("object: %w", err)
	}
	if len(strict) > 0 {
		return fmt.Errorf("object: %w", strict[0])
	}
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return errors.New("object: no metadata")
	}
	text := func(fields map[string]any, field string) string { s, _ := fields[field].(string); return s }
	group, version := key.SplitVersion(text(object, "apiVersion"))
	switch {
	case group != r.APIGroup() || version == "":
		return fmt.Errorf("object: apiVersion %q is not of the group %q", wire.Clip(text(object, "apiVersion"), maxText), r.APIGroup())
	case text(object, "kind") == "" || len(text(object, "kind")) > maxText:
		return errors.New("object: no kind")
	case text(metadata, "name") != r.Name || text(metadata, "namespace") != r.Namespace:
		return errors.New("object: it has another name or namespace than the report")
	case text(metadata, "uid") != report.UID:
		return errors.New("object: it has another UID than the report")
	case metadata["managedFields"] != nil:
		return errors.New("object: it has managedFields")
	case !isStrings(metadata["labels"]) || !isStrings(metadata["annotations"]):
		return errors.New("object: labels and annotations have strings")
	case isPlaced(r, report.Object, placing.TargetIdentity(r.Object)):
		return errors.New("object: Orrery has placed it")
	}
	return nil
}

// maxText bounds the texts that identify an object.
const maxText = 253

// isPlaced reports whether an agent of any location has placed the object, by its ownership
// metadata. Agents use the same rule. identity is the object's identity in the cluster.
func isPlaced(r key.Report, object []byte, identity key.Identity) bool {
	var o ownership.Answer
	if err := o.UnmarshalJSON(object); err != nil {
		return false // cannot happen: it was decoded before
	}
	o.Metadata.Namespace, o.Metadata.Name = identity.Namespace, identity.Name
	return o.Metadata.Anybodys(r.Resource, o.Kind)
}

func isStrings(v any) bool {
	if v == nil {
		return true
	}
	all, ok := v.(map[string]any)
	for _, one := range all {
		if _, text := one.(string); !text {
			return false
		}
	}
	return ok
}
