package discovery

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
)

const (
	jsonType   = "application/json"
	v2Protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	v3Protobuf = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// serveOpenAPI answers below /openapi.
func (c answers) serveOpenAPI(w http.ResponseWriter, r *http.Request, path []string) {
	var err error
	switch {
	case len(path) == 1 && path[0] == "v2":
		err = c.serveV2(w, r)
	case len(path) == 1 && path[0] == "v3":
		err = c.serveIndex(w, r)
	case len(path) == 3 && path[0] == "v3" && path[1] == "api":
		err = c.serveV3(w, r, schema.GroupVersion{Version: path[2]})
	case len(path) == 4 && path[0] == "v3" && path[1] == "apis":
		err = c.serveV3(w, r, schema.GroupVersion{Group: path[2], Version: path[3]})
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func (c answers) serveIndex(w http.ResponseWriter, r *http.Request) error {
	index, err := c.openAPIIndex()
	if err != nil {
		return err
	}
	data, err := json.Marshal(index)
	if err != nil {
		return fmt.Errorf("encode OpenAPI index: %w", err)
	}
	if unchanged(w, r, etagOf(data)) {
		return nil
	}
	w.Header().Set("Content-Type", jsonType)
	write(w, r, data)
	return nil
}

func (c answers) serveV3(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion) error {
	v := c.version(gv)
	if len(v.kinds) == 0 {
		http.NotFound(w, r)
		return nil
	}
	d, err := c.describeVersion(v)
	if err != nil {
		return err
	}
	contentType := accepted(r, v3Protobuf)
	if contentType == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	if hash := r.URL.Query().Get("hash"); hash != "" {
		if hash != d.hash {
			// By the query alone: below which path clients reach this, only they know.
			w.Header().Set("Location", "?"+url.Values{"hash": {d.hash}}.Encode())
			w.WriteHeader(http.StatusMovedPermanently)
			return nil
		}
		w.Header().Set("Cache-Control", "public, immutable, max-age=31536000")
	}
	if unchanged(w, r, d.hash) {
		return nil
	}
	packed, ok, err := c.packed(d)
	if err != nil {
		return err
	}
	if ok && contentType == jsonType {
		w.Header().Set("Content-Type", jsonType)
		return writePacked(w, r, packed)
	}
	data, err := c.document(d)
	if err != nil {
		return err
	}
	if contentType == v3Protobuf {
		if data, err = handler3.ToV3ProtoBinary(data); err != nil {
			return fmt.Errorf("encode OpenAPI of %s: %w", gv, err)
		}
	}
	w.Header().Set("Content-Type", contentType)
	write(w, r, data)
	return nil
}

// serveV2 answers with one document of all groups. It always describes all built-in
// kinds, also those that a view does not serve. Those of CRDs are added while it is
// written, since a whole document may be many megabytes.
func (c answers) serveV2(w http.ResponseWriter, r *http.Request) error {
	contentType := accepted(r, v2Protobuf)
	if contentType == "" {
		w.WriteHeader(http.StatusNotAcceptable)
		return nil
	}
	hash, err := c.openAPIV2Hash()
	if err != nil {
		return err
	}
	if unchanged(w, r, hash) {
		return nil
	}
	embeds, err := openapi.Builtin()
	if err != nil {
		return err
	}
	var customs []kinds.Custom
	for _, k := range c.Kinds() {
		if k.Custom != nil {
			customs = append(customs, k.Custom)
		}
	}
	w.Header().Set("Content-Type", contentType)
	if contentType == v2Protobuf {
		return writeV2Protobuf(w, r, embeds.V2Proto.Packed, customs)
	}
	if len(customs) == 0 {
		return writePacked(w, r, embeds.V2.Packed)
	}
	select {
	case c.merges <- struct{}{}:
		defer func() { <-c.merges }()
	case <-r.Context().Done():
		return nil
	}
	documents := []openapi.Source{{Packed: embeds.V2.Packed}}
	for _, custom := range customs {
		packed, err := custom.OpenAPI().V2()
		if err != nil {
			return err
		}
		documents = append(documents, openapi.Source{Packed: packed})
	}
	data, err := openapi.MergeV2(documents)
	if err != nil {
		return err
	}
	write(w, r, data)
	return nil
}

// writeV2Protobuf writes one message after the other. Protobuf reads them as one: lists
// are joined, and of any other field the last value counts.
func writeV2Protobuf(w http.ResponseWriter, r *http.Request, builtin []byte, customs []kinds.Custom) error {
	if len(customs) == 0 {
		return writePacked(w, r, builtin)
	}
	var packed [][]byte
	for _, custom := range customs {
		p, err := custom.OpenAPI().V2Proto()
		if err != nil {
			return err
		}
		packed = append(packed, p)
	}
	out, done := compressed(w, r)
	for _, p := range append(packed, builtin) {
		z, err := gzip.NewReader(bytes.NewReader(p))
		if err != nil {
			return fmt.Errorf("unpack OpenAPI: %w", err)
		}
		if _, err := io.Copy(out, z); err != nil {
			return nil //nolint:nilerr // The client is gone, or has half an answer.
		}
	}
	done()
	return nil
}

// accepted negotiates between JSON, which is the default, and a protobuf type;
// it is "" if the client wants neither.
func accepted(r *http.Request, protobuf string) string {
	header := r.Header.Get("Accept")
	if header == "" {
		return jsonType
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		// Clients write the version of the type with an "@", too.
		switch name := clause.Type + "/" + strings.ReplaceAll(clause.SubType, "@", "."); name {
		case jsonType, "*/*", "application/*":
			return jsonType
		case protobuf:
			return protobuf
		}
	}
	return ""
}

// unchanged answers a client that already has the content.
func unchanged(w http.ResponseWriter, r *http.Request, hash string) bool {
	etag := strconv.Quote(hash)
	w.Header().Set("ETag", etag)
	w.Header().Add("Vary", "Accept")
	w.Header().Add("Vary", "Accept-Encoding")
	if r.Header.Get("If-None-Match") != etag {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// compressed is a writer of the answer's body, gzipped if the client likes it;
// done ends it.
func compressed(w http.ResponseWriter, r *http.Request) (out io.Writer, done func()) {
	if !acceptsGzip(r) {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
	return z, func() { _ = z.Close() }
}

func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, quality, _ := strings.Cut(strings.TrimSpace(coding), ";")
		if name == "gzip" && strings.TrimSpace(quality) != "q=0" {
			return true
		}
	}
	return false
}

// write writes a body. An error then is the client's to notice.
func write(w http.ResponseWriter, r *http.Request, data []byte) {
	out, done := compressed(w, r)
	_, _ = out.Write(data)
	done()
}

// writePacked writes a gzipped body, unpacking it only for clients that can't.
func writePacked(w http.ResponseWriter, r *http.Request, packed []byte) error {
	if acceptsGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(packed)))
		_, _ = w.Write(packed)
		return nil
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpack OpenAPI: %w", err)
	}
	_, _ = io.Copy(w, z)
	return nil
}
