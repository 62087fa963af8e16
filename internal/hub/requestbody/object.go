package requestbody

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"orrery.dev/orrery/internal/lib/jsonscan"
)

// Object sets the limits of a body that a handler of k8s.io/apiserver reads: an object, options or a patch. It refuses a
// body that is nested too deeply, at once or when the handler has read so far. most is how many bytes the handler
// takes; a larger body is refused by the handler. Such handlers need a Serializer, too.
func Object(r *http.Request, most int64) error {
	if r.Body == nil || r.Body == http.NoBody {
		return nil
	}
	limits := Limits{Bytes: most + 1}
	// A body without a type is JSON to the handlers, and they refuse an unknown type.
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	isYAML, isPatch := strings.HasSuffix(kind, "yaml"), kind == string(types.JSONPatchType)
	limit(r, limits, !isYAML && kind != runtime.ContentTypeProtobuf)
	if !isYAML && !isPatch {
		return nil
	}
	data, whole, err := Peek(r, most)
	if err == nil && whole && (isPatch && hasDeepPaths(data) || isYAML && isDeepYAML(data)) {
		err = ErrTooDeep
	}
	return err
}

// hasDeepPaths reports whether a JSON Patch has a path that is too deep.
func hasDeepPaths(patch []byte) bool {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return false // the handlers report the fault
	}
	for _, o := range operations {
		for _, field := range []string{"path", "from"} {
			var path string
			if json.Unmarshal(o[field], &path) == nil && strings.Count(path, "/") > MaxDepth {
				return true
			}
		}
	}
	return false
}

// Serializer refuses to decode objects that are nested too deeply. The results of patches are
// decoded, too, and the depth of protobuf is checked here alone.
type Serializer struct{ runtime.NegotiatedSerializer }

// DecoderToVersion implements runtime.NegotiatedSerializer.
func (s Serializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return decoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type decoder struct{ runtime.Decoder }

// Decode implements runtime.Decoder.
func (d decoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	message, isProtobuf := bytes.CutPrefix(data, []byte(protobufPrefix))
	if isProtobuf && isDeepMessage(message, 0) || !isProtobuf && bytes.HasPrefix(data, []byte("{")) && new(jsonscan.Nesting).Exceeds(data, MaxDepth) {
		return nil, nil, ErrTooDeep
	}
	return d.Decoder.Decode(data, defaults, into)
}

const (
	// protobufPrefix is how objects begin that are encoded as protobuf.
	protobufPrefix = "k8s\x00"
	// maxMessages is MaxDepth in messages, of which a schema takes two for each level.
	maxMessages = 2*MaxDepth + 16
	// The wire types of protobuf: a number of bytes and the bytes, eight bytes, or four.
	wireBytes, wireFixed64, wireFixed32 = 2, 1, 5
	// wireVarint is a number of up to ten bytes.
	wireVarint = 0
)

// isDeepMessage reports whether messages of protobuf are nested too deeply. Only their types know which fields are
// messages: every field that can be read as a message counts, as far as it can. No
// text can by chance be read as hundreds of them.
func isDeepMessage(data []byte, depth int) bool {
	if depth > maxMessages {
		return true
	}
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return false
		}
		data = data[n:]
		skip := 0
		switch tag & 7 {
		case wireVarint:
			if _, skip = binary.Uvarint(data); skip <= 0 {
				return false
			}
		case wireFixed64:
			skip = 8
		case wireFixed32:
			skip = 4
		case wireBytes:
			size, n := binary.Uvarint(data)
			if n <= 0 {
				return false
			}
			data = data[n:]
			inner := data[:min(size, uint64(len(data)))]
			if isDeepMessage(inner, depth+1) {
				return true
			}
			skip = len(inner)
		}
		if skip > len(data) {
			return false
		}
		data = data[skip:]
	}
	return false
}
