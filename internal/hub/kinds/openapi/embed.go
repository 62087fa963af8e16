// Package openapi contains the compressed OpenAPI documents of kinds: the embedded documents of
// built-in kinds, and the documents that it generates from CRDs. It merges several into one.
//
// It must not know the kinds of a space: the caller selects the operations of a document to keep.
package openapi

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

//go:generate go run generate.go

// builtinOpenAPI contains the compressed documents of the built-in kinds. Uncompressed they need
// twenty times the memory, as Go values a hundred times.
//
//go:embed documents/*.gz documents/index.json
var builtinOpenAPI embed.FS

// Document is one packed document.
type Document struct {
	// Packed is gzipped.
	Packed []byte
	// Hash names the content.
	Hash string
	// Resources are the resources that the document describes.
	Resources []string
}

// Builtins are the documents of the built-in kinds.
type Builtins struct {
	// V3 has a document for each version, by Root.
	V3 map[string]Document
	// V2 and V2Proto are one document of all groups in its two encodings.
	V2, V2Proto Document
}

// Builtin returns the documents of the built-in kinds. Callers must not change them.
func Builtin() (Builtins, error) { return builtins() }

var builtins = sync.OnceValues(func() (Builtins, error) {
	data, err := builtinOpenAPI.ReadFile("documents/index.json")
	if err != nil {
		return Builtins{}, fmt.Errorf("read OpenAPI index: %w", err)
	}
	var index map[string][]string
	if err := json.Unmarshal(data, &index); err != nil {
		return Builtins{}, fmt.Errorf("read OpenAPI index: %w", err)
	}
	b := Builtins{V3: make(map[string]Document, len(index))}
	for root, resources := range index {
		if b.V3[root], err = embedded(strings.ReplaceAll(root, "/", "__")+".json", resources); err != nil {
			return Builtins{}, err
		}
	}
	if b.V2, err = embedded("v2.json", nil); err != nil {
		return Builtins{}, err
	}
	b.V2Proto, err = embedded("v2.pb", nil)
	return b, err
})

func embedded(name string, resources []string) (Document, error) {
	packed, err := builtinOpenAPI.ReadFile("documents/" + name + ".gz")
	if err != nil {
		return Document{}, fmt.Errorf("read OpenAPI of built-in kinds: %w", err)
	}
	sum := sha256.Sum256(packed)
	return Document{Packed: packed, Hash: hex.EncodeToString(sum[:]), Resources: resources}, nil
}

// Root is where a version is served, without a slash in front.
func Root(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}
