package wire

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

// The output of WritePut equals that of an Encoder, in one line, with the object's bytes unchanged.
func TestWritePut(t *testing.T) {
	for _, p := range []Put{
		{Key: "s/core/configmaps/n/x", UID: "u", Object: []byte(`{"data":{"a":"<&>\u2028"},"kind":"ConfigMap"}`)},
		{
			Key: "s/core/configmaps/n/x", UID: "u", Generation: 3, Digest: SumOf([]byte("x")), Policy: Policy{ReturnStatus: true},
			ReportFirst: true, Object: []byte(`{}`), Revision: 7, Marker: "m",
		},
	} {
		var written, encoded bytes.Buffer
		if err := WritePut(&written, &p); err != nil {
			t.Fatal(err)
		}
		if err := NewEncoder(&encoded).Encode(Frame{Put: &p}); err != nil {
			t.Fatal(err)
		}
		if text := written.String(); strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") || !bytes.Contains(written.Bytes(), p.Object) {
			t.Errorf("written: %s", text)
		}
		var got, want Frame
		for from, to := range map[*bytes.Buffer]*Frame{&written: &got, &encoded: &want} {
			if err := NewDecoder(from).Decode(to); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, want %+v", got.Put, want.Put)
		}
	}
}

// BenchmarkPut measures the line of a put of four kilobytes, which is written for each location.
func BenchmarkPut(b *testing.B) {
	p := Put{Key: "s/core/configmaps/n/x", UID: "u", Object: []byte(`{"data":{"a":"` + strings.Repeat("x", 4<<10) + `"}}`)}
	var to bytes.Buffer
	for name, write := range map[string]func() error{
		"written": func() error { return WritePut(&to, &p) },
		"encoded": func() error { return NewEncoder(&to).Encode(Frame{Put: &p}) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				to.Reset()
				if err := write(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
