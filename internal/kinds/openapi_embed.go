package kinds

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run openapi/generate.go -kubernetes v1.36.3 -out openapi

// builtinOpenAPI has the documents of the built-in kinds, packed: unpacked they
// take twenty times the memory, as Go values a hundred times.
//
//go:embed openapi/*.gz openapi/index.json
var builtinOpenAPI embed.FS

// embedded is one packed document.
type embedded struct {
	packed []byte
	hash   string
	// resources are those that the document describes.
	resources []string
}

// builtinDocuments are the OpenAPI v3 documents of the built-in kinds, by root
// ("apis/apps/v1"); "v2.json" and "v2.pb" are OpenAPI v2 in its two encodings.
var builtinDocuments = sync.OnceValues(func() (map[string]embedded, error) {
	data, err := builtinOpenAPI.ReadFile("openapi/index.json")
	if err != nil {
		return nil, fmt.Errorf("read OpenAPI index: %w", err)
	}
	var index map[string][]string
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("read OpenAPI index: %w", err)
	}
	index["v2.json"], index["v2.pb"] = nil, nil
	documents := make(map[string]embedded, len(index))
	for root, resources := range index {
		name := strings.ReplaceAll(root, "/", "__")
		if !strings.HasPrefix(name, "v2.") {
			name += ".json"
		}
		packed, err := builtinOpenAPI.ReadFile("openapi/" + name + ".gz")
		if err != nil {
			return nil, fmt.Errorf("read OpenAPI of %q: %w", root, err)
		}
		documents[root] = embedded{packed: packed, hash: etagOf(packed), resources: resources}
	}
	return documents, nil
})

// rootOf is where a version is served, without a slash in front.
func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

func unzip(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("unpack: %w", err)
	}
	return data, nil
}

func zip(data []byte) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return bytes.Clone(packed.Bytes()), nil
}
