package read

import (
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/util/apihelpers"

	"orrery.dev/orrery/internal/hub/kinds"
)

// form is how an encoder wants an object.
type form uint8

const (
	// formUnknown is that of an encoder that is not in the catalog: the object is decoded,
	// and counted as a fallback, because it may be the hot path of a new library version.
	formUnknown form = iota
	// formJSON is the object's own bytes.
	formJSON
	// formPretty is the same, indented.
	formPretty
	// formProtobuf is protobuf, which is made of the object's own bytes for kinds that are served
	// as they are stored.
	formProtobuf
	// formDecoded needs an object: YAML.
	formDecoded
)

// encoding is what an encoder's identifier says.
type encoding struct {
	form form
	// event is set if the object is one of a watch and the whole event is written.
	event watch.EventType
}

// catalog has the encoders that handlers use for one kind, by their identifiers. It is
// immutable.
type catalog map[apiruntime.Identifier]encoding

// newCatalog has every encoder that the handlers may make from a serializer, and how watches
// are written in each media type.
func newCatalog(s apiruntime.NegotiatedSerializer, gv schema.GroupVersion) (catalog, streams) {
	c, all := catalog{}, streams{}
	for _, info := range s.SupportedMediaTypes() {
		plain := formDecoded
		switch info.MediaType {
		case apiruntime.ContentTypeJSON:
			plain = formJSON
		case apiruntime.ContentTypeProtobuf:
			plain = formProtobuf
		}
		encoder := s.EncoderForVersion(info.Serializer, gv)
		embedded := encoder.Identifier()
		c[embedded] = encoding{form: plain}
		if info.PrettySerializer != nil {
			c[s.EncoderForVersion(info.PrettySerializer, gv).Identifier()] = encoding{form: formPretty}
		}
		if info.StreamSerializer == nil {
			continue
		}
		to := &medium{mediaType: info.MediaType, framer: info.StreamSerializer.Framer, object: encoder,
			event: s.EncoderForVersion(info.StreamSerializer.Serializer, gv), ids: map[watch.EventType]apiruntime.Identifier{}}
		if info.MediaType != apiruntime.ContentTypeJSON {
			to.mediaType += ";stream=watch"
		}
		all[info.MediaType] = to
		for _, event := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
			to.ids[event] = watchIdentifier(embedded, to.event.Identifier(), event)
			c[to.ids[event]] = encoding{form: plain, event: event}
		}
	}
	return c, all
}

// watchID has the fields of the identifier that k8s.io/apiserver makes for an
// event of a watch. If it ever differs, events are decoded and counted.
type watchID struct {
	Name            string `json:"name,omitempty"`
	EmbeddedEncoder string `json:"embeddedEncoder,omitempty"`
	Encoder         string `json:"encoder,omitempty"`
	EventType       string `json:"eventType,omitempty"`
}

func watchIdentifier(embedded, stream apiruntime.Identifier, event watch.EventType) apiruntime.Identifier {
	id, err := json.Marshal(watchID{"watch", string(embedded), string(stream), string(event)})
	if err != nil { // a struct of strings
		panic(err)
	}
	return apiruntime.Identifier(id)
}

// transforms says whether an encoder turns objects into table rows or partial metadata,
// for which it needs their metadata or a TableConvertor, but no decoded object.
func transforms(id apiruntime.Identifier) bool {
	return strings.Contains(string(id), "watch-embedded")
}

// partialShape is the shape of kinds of which only the metadata is shown.
func partialShape() *shape {
	gvk := metadataGVK()
	encoders, streams := newCatalog(apihelpers.GetMetaInternalVersionCodecs(), gvk.GroupVersion())
	return &shape{
		catalog:    encoders,
		streams:    streams,
		apiVersion: gvk.GroupVersion().String(),
		listKind:   gvk.Kind + "List",
		asStored:   true,
	}
}

// shape is what encoding the objects of a kind needs besides the objects. It
// does not refer to the kind.
type shape struct {
	catalog catalog
	streams streams
	// apiVersion and listKind are as served.
	apiVersion, listKind string
	// itemHead is the beginning of objects, with kind and apiVersion, that is left out of
	// items of a list, as Kubernetes does for built-in kinds; nil for other kinds.
	itemHead []byte
	// checkVersion says that stored values may differ in version from each other.
	checkVersion bool
	// asStored says that the stored version is the one that is served.
	asStored bool
}

// shapes has the shape of every kind in use, for as long as the kind is.
type shapes struct{ byKind sync.Map }

func (s *shapes) of(k *kinds.Kind) *shape {
	p := weak.Make(k)
	if known, ok := s.byKind.Load(p); ok {
		return known.(*shape)
	}
	known, loaded := s.byKind.LoadOrStore(p, newShape(k))
	if !loaded {
		runtime.AddCleanup(k, func(p weak.Pointer[kinds.Kind]) { s.byKind.Delete(p) }, p)
	}
	return known.(*shape)
}

func newShape(k *kinds.Kind) *shape {
	gv := k.GVK.GroupVersion()
	encoders, streams := newCatalog(k.Scope("").Serializer, gv)
	s := &shape{
		catalog:      encoders,
		streams:      streams,
		apiVersion:   gv.String(),
		listKind:     k.ListKind,
		checkVersion: k.Custom != nil,
		asStored:     k.StoredAsServed(),
	}
	if k.Custom == nil {
		s.itemHead = []byte(`{"kind":"` + k.GVK.Kind + `","apiVersion":"` + s.apiVersion + `",`)
	}
	return s
}

// metadataGVK is the kind of objects of which only the metadata is shown.
func metadataGVK() schema.GroupVersionKind {
	return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
}
