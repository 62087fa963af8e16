package direct

import (
	"bytes"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Medium encodes the events of watches of one kind in one media type. All these watches share
// it.
type Medium struct {
	// MediaType is the media type of responses.
	MediaType string
	Framer    runtime.Framer
	// Object encodes objects, and Event encodes events with encoded objects.
	Object, Event runtime.Encoder
	// IDs are the identifiers of the encoders of whole events, by their type.
	IDs map[watch.EventType]runtime.Identifier
}

// write writes one event, as the handlers of k8s.io/apiserver do.
func (m *Medium) write(e watch.Event, w io.Writer) error {
	to := m.Framer.NewFrameWriter(w)
	encode := func(o runtime.Object, to io.Writer) error {
		var object, event bytes.Buffer
		if err := m.Object.Encode(o, &object); err != nil {
			return err
		}
		if err := m.Event.Encode(&metav1.WatchEvent{Type: string(e.Type), Object: runtime.RawExtension{Raw: object.Bytes()}}, &event); err != nil {
			return err
		}
		_, err := to.Write(event.Bytes())
		return err
	}
	if o, ok := e.Object.(runtime.CacheableObject); ok {
		return o.CacheEncode(m.IDs[e.Type], encode, to)
	}
	return encode(e.Object, to)
}
