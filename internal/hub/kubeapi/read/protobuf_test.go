package read

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kubeapi/read/pieces"
	"orrery.dev/orrery/internal/hub/storage/table"
)

const protobufBody = "application/vnd.kubernetes.protobuf"

// protobufOf is how a decoded object or list of a kind is encoded, and the encoder's name.
func protobufOf(t tester, k *kinds.Kind, decoded runtime.Object) (runtime.Identifier, []byte) {
	t.Helper()
	serializer := k.Scope("").Serializer
	info, ok := runtime.SerializerInfoForMediaType(serializer.SupportedMediaTypes(), protobufBody)
	if !ok {
		t.Fatalf("%s has no protobuf", k.GVK)
	}
	encoder := serializer.EncoderForVersion(info.Serializer, k.GVK.GroupVersion())
	encoded, err := runtime.Encode(encoder, decoded)
	if err != nil {
		t.Fatal(err)
	}
	return encoder.Identifier(), encoded
}

// sameProtobuf compares a list, and each of its items, with what decoding and encoding gives.
func sameProtobuf(t tester, l *list) {
	t.Helper()
	if l.format.transcoder() == nil {
		return
	}
	never := func(runtime.Object, io.Writer) error { return fmt.Errorf("it was decoded") }
	decoded, err := l.decode()
	if err != nil {
		t.Fatal(err)
	}
	id, want := protobufOf(t, l.format.view.kind, decoded)
	var got bytes.Buffer
	if err := l.CacheEncode(id, never, &got); err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("list: %v\n got %q\nwant %q", err, got.Bytes(), want)
	}
	for _, o := range l.Items {
		decoded, err := o.decode()
		if err != nil {
			t.Fatal(err)
		}
		id, want := protobufOf(t, l.format.view.kind, decoded)
		var got []byte
		err = o.CacheEncode(id, func(made runtime.Object, _ io.Writer) error {
			if _, ok := made.(*runtime.Unknown); !ok {
				return fmt.Errorf("it was decoded")
			}
			_, got = protobufOf(t, l.format.view.kind, made)
			return nil
		}, io.Discard)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q: %v\n got %q\nwant %q", o.row.Key, err, got, want)
		}
	}
}

// TestProtobufOfWhatIsUnusual: what can't be made of its bytes is decoded, beside what can; and
// what can't be decoded fails the list before its first byte.
func TestProtobufOfWhatIsUnusual(t *testing.T) {
	f := newFixture(t)
	f.put(cm("a", "x", "1"), cm("a", "large", strings.Repeat("ü", pieces.Bytes)), cm("a", "y", `"quoted"`))
	unusual := strings.Replace(string(cm("a", "z", "1").value()), `"data":{`, `"data":{"k":"twice",`, 1)
	f.apply(table.Update{Key: cm("a", "z", "").key(), Value: []byte(unusual)})
	s := f.serve()
	path := s.URL + "/spaces/a/api/v1/configmaps"

	r := f.reader(Space("a"), configMaps)
	result, err := r.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := result.(*list).decode()
	if err != nil {
		t.Fatal(err)
	}
	_, want := protobufOf(t, r.view.kind, decoded)
	if status, got := get(t, path, "Accept", protobufBody); status != 200 || !bytes.Equal(got, want) {
		t.Errorf("%d\n got %q\nwant %q", status, got, want)
	}

	f.apply(table.Update{Key: cm("a", "z", "").key(), Value: []byte(strings.Replace(unusual, `"twice"`, `[]`, 1))})
	if status, got := get(t, path, "Accept", protobufBody); status != 500 {
		t.Errorf("with what can't be decoded: %d %q", status, got)
	}
	if n := f.server.Fallbacks(); n != 0 {
		t.Errorf("%d encodings fell back to decoding", n)
	}
}
