package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// timeout bounds each wait for a side.
const timeout = env.Soon

// server is one of the two that are compared.
type server struct {
	client *http.Client
	url    string
	// forget compacts the history of the server.
	forget func(*side) error
}

// side is a server for one behaviour, with a namespace of its own and the transcript of requests and
// responses. One goroutine owns it.
type side struct {
	*server
	t *testing.T
	// ns is a namespace that no other behaviour uses.
	ns  string
	log transcript
	// numbers is the number of results of number.
	numbers int

	mu      sync.Mutex
	streams []*stream
}

func newSide(t *testing.T, s *server, name string) *side {
	return &side{server: s, t: t, ns: strings.ReplaceAll(name, " ", "-")}
}

// ready creates the namespace. Neither side runs controllers that would initialize it.
func (s *side) ready() {
	s.quietly(http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+s.ns+`"}}`)
}

// close ends the watches that the behaviour has not ended.
func (s *side) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.streams {
		w.cancel()
	}
}

func (s *side) transcript() string { return s.log.String() }

// say adds a line to the transcript.
func (s *side) say(format string, args ...any) { s.log.line(fmt.Sprintf(format, args...)) }

// in returns the path of a core resource in the namespace of the side. Further segments name an
// object and a subresource.
func (s *side) in(resource string, segments ...string) string {
	return strings.Join(append([]string{"/api/v1/namespaces/" + s.ns + "/" + resource}, segments...), "/")
}

// inGroup returns the path of a resource of another group and version.
func (s *side) inGroup(gv, resource string, segments ...string) string {
	return strings.Join(append([]string{"/apis/" + gv + "/namespaces/" + s.ns + "/" + resource}, segments...), "/")
}

// answer is a response, read to its end.
type answer struct {
	code   int
	header http.Header
	body   []byte
	object map[string]any // nil if the body is no JSON object
}

func (a answer) field(path ...string) any {
	var v any = a.object
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}

func (a answer) text(path ...string) string {
	s, _ := a.field(path...).(string)
	return s
}

func (a answer) rv() string  { return a.text("metadata", "resourceVersion") }
func (a answer) uid() string { return a.text("metadata", "uid") }

// Bodies are JSON unless a header says something else.
const (
	typeJSON      = "application/json"
	typeYAML      = "application/yaml"
	typeProtobuf  = "application/vnd.kubernetes.protobuf"
	typeJSONPatch = "application/json-patch+json"
	typeMerge     = "application/merge-patch+json"
	typeStrategic = "application/strategic-merge-patch+json"
	typeApply     = "application/apply-patch+yaml"
)

// call sends a request, and adds it and the response to the transcript. Headers have the form
// "Name: value".
func (s *side) call(method, path, body string, headers ...string) answer {
	a, err := s.do(method, path, body, headers...)
	shown := path
	if len(shown) > 200 {
		shown = shown[:200] + "..."
	}
	s.log.line(strings.Join(append([]string{method + " " + shown}, headers...), " | "))
	if err != nil {
		s.log.line("  no answer")
		return a
	}
	s.log.answer(a)
	return a
}

func (s *side) get(path string, headers ...string) answer {
	return s.call(http.MethodGet, path, "", headers...)
}

func (s *side) post(path, body string, headers ...string) answer {
	return s.call(http.MethodPost, path, body, headers...)
}

func (s *side) put(path, body string, headers ...string) answer {
	return s.call(http.MethodPut, path, body, headers...)
}

func (s *side) patch(contentType, path, body string, headers ...string) answer {
	return s.call(http.MethodPatch, path, body, append([]string{"Content-Type: " + contentType}, headers...)...)
}

func (s *side) apply(path, body string, headers ...string) answer {
	return s.patch(typeApply, path, body, headers...)
}

func (s *side) delete(path, body string, headers ...string) answer {
	return s.call(http.MethodDelete, path, body, headers...)
}

// quietly sends a request that is not compared. It must succeed.
func (s *side) quietly(method, path, body string, headers ...string) answer {
	a, err := s.do(method, path, body, headers...)
	if err != nil || a.code >= http.StatusBadRequest {
		s.say("%s %s failed: %v %d %s", method, path, err, a.code, a.body)
	}
	return a
}

// create creates a ConfigMap in the namespace of the side, without a record in the transcript.
func (s *side) create(name string, labels ...string) answer {
	return s.quietly(http.MethodPost, s.in("configmaps"), configMap(name, labels...))
}

func (s *side) do(method, path, body string, headers ...string) (answer, error) {
	resp, err := s.send(s.t.Context(), method, path, body, headers...)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return a, err
	}
	decoder := json.NewDecoder(bytes.NewReader(a.body))
	decoder.UseNumber()
	if decoder.Decode(&a.object) != nil {
		a.object = nil
	}
	return a, nil
}

// eventually repeats a GET until the response has a status code.
func (s *side) eventually(path string, code int) {
	deadline := time.After(timeout)
	for {
		a, err := s.do(http.MethodGet, path, "")
		if err == nil && a.code == code {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			s.say("GET %s: never answered %d", path, code)
			return
		}
	}
}

// configMap returns a ConfigMap as JSON. Labels have the form key=value.
func configMap(name string, labels ...string) string {
	m := map[string]any{"name": name}
	if len(labels) > 0 {
		l := map[string]string{}
		for _, label := range labels {
			k, v, _ := strings.Cut(label, "=")
			l[k] = v
		}
		m["labels"] = l
	}
	b, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m, "data": map[string]string{"k": "v"}})
	if err != nil {
		panic(err) // maps of strings
	}
	return string(b)
}
