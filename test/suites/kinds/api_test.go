package kinds

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/test/support/env"
)

const (
	orreryGroup = "orrery.dev"
	// soon bounds waiting on a busy machine.
	soon = env.Soon
)

// Media types of the Kubernetes API.
const (
	asJSON     = "application/json"
	asYAML     = "application/yaml"
	asProtobuf = "application/vnd.kubernetes.protobuf"
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"

	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// api is a Kubernetes API as raw requests and answers.
type api struct {
	base   string
	client *http.Client
}

func newAPI(t *testing.T, config *rest.Config) api {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return api{base: strings.TrimSuffix(config.Host, "/"), client: client}
}

// do sends a request and returns the code and body of the answer.
func (a api) do(t *testing.T, method, path, contentType, accept string, body []byte) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, a.base+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", accept)
	resp, err := a.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, answer
}

// must is do for a request that has to be answered with 200 or 201, in JSON.
func (a api) must(t *testing.T, method, path, contentType string, body []byte) map[string]any {
	t.Helper()
	return decode(t, a.raw(t, method, path, contentType, asJSON, body))
}

func (a api) raw(t *testing.T, method, path, contentType, accept string, body []byte) []byte {
	t.Helper()
	code, answer := a.do(t, method, path, contentType, accept, body)
	if code != http.StatusOK && code != http.StatusCreated {
		t.Fatalf("%s %s with %s is answered with %d: %s", method, path, body, code, answer)
	}
	return answer
}

func (a api) get(t *testing.T, path string) map[string]any {
	t.Helper()
	return a.must(t, http.MethodGet, path, asJSON, nil)
}

// exists reports whether an object exists at a path.
func (a api) exists(t *testing.T, path string) bool {
	t.Helper()
	code, answer := a.do(t, http.MethodGet, path, asJSON, asJSON, nil)
	if code != http.StatusOK && code != http.StatusNotFound {
		t.Fatalf("GET %s is answered with %d: %s", path, code, answer)
	}
	return code == http.StatusOK
}
