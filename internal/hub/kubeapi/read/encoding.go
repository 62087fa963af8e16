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
	"orrery.dev/orrery/internal/hub/kubeapi/read/direct"
)

// form is the input that an encoder needs.
type form uint8

const (
	// formUnknown is for encoders that are not in the catalog. The object is decoded, and
	// counted as a fallback: a new version of a library may use the encoder for most reads.
	formUnknown form = iota
	// formJSON needs the bytes of the object.
	formJSON
	// formPretty needs the bytes of the object, indented.
	formPretty
	// formProtobuf needs protobuf. It is converted from the bytes of the object if the kind is
	// served as it is stored.
	formProtobuf
	// formDecoded needs a decoded object: YAML.
	formDecoded
)

// encoding describes the encoder of an identifier.
type encoding struct {
	form form
	// event is set if the encoder writes a whole watch event and not only an object.
	event watch.EventType
}

// catalog maps the identifiers of the encoders that handlers use for one kind to what these
// need. It is immutable.
type catalog map[apiruntime.Identifier]encoding

// streams maps media types to the encodings of watches.
type streams map[string]*direct.Medium

// newCatalog returns every encoder that the handlers may make from a serializer, and the
// encoding of watches for each media type.
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
		to := &direct.Medium{MediaType: info.MediaType, Framer: info.StreamSerializer.Framer, Object: encoder,
			Event: s.EncoderForVersion(info.StreamSerializer.Serializer, gv), IDs: map[watch.EventType]apiruntime.Identifier{}}
		if info.MediaType != apiruntime.ContentTypeJSON {
			to.MediaType += ";stream=watch"
		}
		all[info.MediaType] = to
		for _, event := range []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark} {
			to.IDs[event] = watchIdentifier(embedded, to.Event.Identifier(), event)
			c[to.IDs[event]] = encoding{form: plain, event: event}
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

// transforms reports whether an encoder turns objects into table rows or partial metadata. It
// needs their metadata or a TableConvertor, but no decoded object.
func transforms(id apiruntime.Identifier) bool {
	return strings.Contains(string(id), "watch-embedded")
}

// partialShape is the shape of kinds of which clients read only the metadata.
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

// shape is what encoding the objects of a kind needs besides the objects. It must not refer to
// the kind, which is the weak key of shapes.
type shape struct {
	catalog catalog
	streams streams
	// apiVersion and listKind are those of responses.
	apiVersion, listKind string
	// itemHead is the beginning of objects, with kind and apiVersion, that is left out of
	// items of a list, as Kubernetes does for built-in kinds; nil for other kinds.
	itemHead []byte
	// checkVersion reports whether stored objects may differ in version from each other.
	checkVersion bool
	// asStored reports whether the stored version is the one that is served.
	asStored bool
}

// shapes caches the shape of each kind until the kind is garbage collected.
type shapes struct{ byKind sync.Map }

func (s *shapes) get(k *kinds.Kind) *shape {
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

// metadataGVK is the kind of objects of which clients read only the metadata.
func metadataGVK() schema.GroupVersionKind {
	return metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")
}
