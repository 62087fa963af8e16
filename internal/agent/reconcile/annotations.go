package reconcile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"

	"orrery.dev/orrery/internal/agent/kubeclient"
	"orrery.dev/orrery/internal/protocol/wire"
)

// maxAnnotations is the maximum size of all annotations of an object, in bytes of names and values. An object of a
// space may have as many, but at the location those of Orrery are added.
const maxAnnotations = 256 << 10

// annotationsError is a refusal for the size of all annotations, with the size of those that the agent sent. The object
// at the location may have more, of other writers.
type annotationsError struct {
	error
	// sent is the size of all that were sent, and own that of Orrery's among them.
	sent, own int
}

func (e *annotationsError) Unwrap() error { return e.error }

// String describes the sizes and the cure.
func (e *annotationsError) String() string {
	if over := e.sent - maxAnnotations; over > 0 {
		return fmt.Sprintf("the annotations have %d bytes, %d more than the %d that the location allows for all annotations of an object; "+
			"Orrery's own annotations count, too, and have %d bytes: shorten the annotations of the object in its space by at least %d bytes",
			e.sent, over, maxAnnotations, e.own, over)
	}
	return fmt.Sprintf("the annotations have %d bytes, and those of other writers at the location are added: together they have more than the %d "+
		"that it allows for all annotations of an object; Orrery's own annotations count, too, and have %d bytes: remove annotations at the location, "+
		"or shorten those of the object in its space", e.sent, maxAnnotations, e.own)
}

// measured adds the sizes of annotations to an error that refuses a body for them. object is the source object in the
// body; nil: it has none.
func measured(err error, body, object []byte) error {
	if !annotationsTooLong(err) {
		return err
	}
	sent := annotationsSize(body)
	return &annotationsError{err, sent, max(0, sent-annotationsSize(object))}
}

// annotationsSize returns the size of an object's annotations as an API server counts them.
func annotationsSize(object []byte) (size int) {
	gjson.GetBytes(object, "metadata.annotations").ForEach(func(name, value gjson.Result) bool {
		size += len(name.Str) + len(value.Str)
		return true
	})
	return size
}

// annotationsTooLong reports whether an error refuses an object for the size of all of its annotations.
func annotationsTooLong(err error) bool {
	s := kubeclient.StatusOf(err)
	if s == nil || s.Details == nil {
		return false
	}
	for _, c := range s.Details.Causes {
		if c.Field == "metadata.annotations" && strings.Contains(c.Message, "Too long") {
			return true
		}
	}
	return false
}

// explained adds a reason to the message of a refusal that users cannot find in their object: the
// annotations of Orrery count toward the limit of a cluster for all annotations.
func explained(message string, err error) string {
	if e, ok := errors.AsType[*annotationsError](err); ok {
		return wire.Brief(e.String() + ": " + message)
	}
	if annotationsTooLong(err) {
		return wire.Brief("Orrery's own annotations count, too: leave 2 KiB for them in the object: " + message)
	}
	return message
}
