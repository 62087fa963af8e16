package fields

import "testing"

// TestWithoutDuplicates shows which elements are left out: those without which a Pod is the same.
func TestWithoutDuplicates(t *testing.T) {
	const head, tail = `{"kind":"Deployment","metadata":{"env":[1,1]},"spec":{"template":{"spec":`, `}}}`
	for name, c := range map[string]struct{ pod, want string }{
		"none":                 {`{"containers":[{"env":[{"name":"a","value":"1"}],"ports":[{"containerPort":80}]}]}`, ""},
		"a variable":           {`{"containers":[{"env":[{"name":"a","value":"1"},{"name":"b"},{"name":"a","value":"2"}]}]}`, `{"containers":[{"env":[{"name":"b"},{"name":"a","value":"2"}]}]}`},
		"three of a name":      {`{"initContainers":[{"env":[{"name":"a"},{"name":"a"},{"name":"a","value":"3"}]}]}`, `{"initContainers":[{"env":[{"name":"a","value":"3"}]}]}`},
		"a variable of itself": {`{"containers":[{"env":[{"name":"a","value":"1"},{"name":"a","value":"$(a):2"}]}]}`, ""},
		"one between":          {`{"containers":[{"env":[{"name":"a","value":"1"},{"name":"b","value":"$(a)"},{"name":"a","value":"2"}]}]}`, ""},
		"one behind":           {`{"containers":[{"env":[{"name":"a","value":"1"},{"name":"a","value":"2"},{"name":"b","value":"$(a)"}]}]}`, `{"containers":[{"env":[{"name":"a","value":"2"},{"name":"b","value":"$(a)"}]}]}`},
		"ports":                {`{"containers":[{},{"ports":[{"containerPort":80},{"containerPort":81},{"containerPort":80}]}]}`, `{"containers":[{},{"ports":[{"containerPort":80},{"containerPort":81}]}]}`},
		"ports of two names":   {`{"containers":[{"ports":[{"containerPort":80,"name":"a"},{"containerPort":80,"name":"b"}]}]}`, ""},
		"secrets":              {`{"imagePullSecrets":[{"name":"a"},{"name":"a"}]}`, `{"imagePullSecrets":[{"name":"a"}]}`},
		"no list":              {`{"env":{"env":1},"ports":"x","imagePullSecrets":null}`, ""},
		"no objects":           {`{"env":["a","a"],"ports":[1,1]}`, `{"env":["a","a"],"ports":[1]}`},
	} {
		want := head + c.want + tail
		if c.want == "" {
			want = head + c.pod + tail
		}
		if got, err := WithoutDuplicates([]byte(head + c.pod + tail)); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
}
