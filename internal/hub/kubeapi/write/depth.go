package write

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// maxDepth is how many objects and lists may lie in each other in what clients send, and
// in what their patches make of an object. The libraries decode, validate and encode
// schemas at a cost that grows with the square of it.
const maxDepth = 128

// errTooDeep is the answer to what lies deeper.
var errTooDeep = apierrors.NewBadRequest(fmt.Sprintf("more than %d objects and lists lie in each other", maxDepth))

// nesting follows how deep it is in JSON, which may come in parts. What is no JSON is for
// others to refuse.
type nesting struct {
	depth           int
	quoted, escaped bool
}

// exceeds goes on by a part, and says whether it gets too deep there.
func (n *nesting) exceeds(part []byte) bool {
	for _, c := range part {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.escaped, n.quoted = c == '\\', c != '"'
		case c == '"':
			n.quoted = true
		case c == '{', c == '[':
			if n.depth++; n.depth > maxDepth {
				return true
			}
		case c == '}', c == ']':
			n.depth--
		}
	}
	return false
}

// shallowBody refuses a request whose body is nested too deep: at once, or when it is
// read so far. limit is how many bytes of it are read at most.
func shallowBody(req *http.Request, limit int64) error {
	if req.Body == nil || req.Body == http.NoBody {
		return nil
	}
	// What has no type is JSON to the handlers, and an unknown type is refused by them.
	kind, _, _ := mime.ParseMediaType(req.Header.Get("Content-Type"))
	switch {
	case kind == runtime.ContentTypeProtobuf:
		return nil // see shallowDecoder
	case kind == string(types.JSONPatchType), strings.HasSuffix(kind, "yaml"):
	default:
		req.Body = &shallowReader{ReadCloser: req.Body}
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	if err != nil {
		return err
	}
	body := req.Body
	req.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), body), body}
	if int64(len(data)) > limit {
		return nil // it is refused for that
	}
	if kind == string(types.JSONPatchType) && deepPaths(data) {
		return errTooDeep
	}
	if !json.Valid(data) { // YAML may be; it has its own ways to nest, which are those of JSON once it is converted
		if data, err = yaml.YAMLToJSON(data); err != nil {
			return nil //nolint:nilerr // the handlers say what is wrong with it
		}
	}
	if new(nesting).exceeds(data) {
		return errTooDeep
	}
	return nil
}

// shallowReader is a body of JSON that ends with an error where it is nested too deep.
type shallowReader struct {
	io.ReadCloser
	at nesting
}

// Read implements io.Reader.
func (r *shallowReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.at.exceeds(p[:n]) {
		return 0, errTooDeep
	}
	return n, err
}

// deepPaths says whether a JSON Patch has a path that leads too deep.
func deepPaths(patch []byte) bool {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return false // the handlers say what is wrong with it
	}
	for _, o := range operations {
		for _, field := range []string{"path", "from"} {
			var path string
			if json.Unmarshal(o[field], &path) == nil && strings.Count(path, "/") > maxDepth {
				return true
			}
		}
	}
	return false
}

// shallowSerializer refuses to decode what is nested too deep. The results of patches are
// decoded, too, and what comes as protobuf is seen here alone.
type shallowSerializer struct{ runtime.NegotiatedSerializer }

func (s shallowSerializer) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return shallowDecoder{s.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type shallowDecoder struct{ runtime.Decoder }

func (d shallowDecoder) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	message, isProtobuf := bytes.CutPrefix(data, []byte(protobufPrefix))
	if isProtobuf && deepMessage(message, 0) || !isProtobuf && bytes.HasPrefix(data, []byte("{")) && new(nesting).exceeds(data) {
		return nil, nil, errTooDeep
	}
	return d.Decoder.Decode(data, defaults, into)
}

const (
	// protobufPrefix is how objects begin that are encoded as protobuf.
	protobufPrefix = "k8s\x00"
	// maxMessages is maxDepth in messages, of which a schema takes two to lie in another.
	maxMessages = 2*maxDepth + 16
	// What follows a field's number: the number of bytes that it has, eight, or four.
	wireBytes, wireFixed64, wireFixed32 = 2, 1, 5
	// wireVarint is a number of up to ten bytes.
	wireVarint = 0
)

// deepMessage says whether messages of protobuf lie too deep in each other. Which fields are
// messages is for their type to say: what can be read as one counts, as far as it can. No
// text can by chance be read as hundreds of them.
func deepMessage(data []byte, depth int) bool {
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
			if deepMessage(inner, depth+1) {
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

// maxCopied is by how many bytes the copies of a JSON Patch may make an object larger, as in
// a kube-apiserver: each copy can double it.
const maxCopied = 3 << 20

// boundCopies sets that in the library, for the whole process: it takes it from nowhere else.
func boundCopies() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopied) }
