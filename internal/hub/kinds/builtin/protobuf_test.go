package builtin_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/hub/kinds/builtin"
	"orrery.dev/orrery/test/support/seeds"
)

// TestProtobufOfStored: what is made of JSON directly is what decoding and encoding makes of it,
// whatever an object of any kind has in its fields.
func TestProtobufOfStored(t *testing.T) {
	all, err := builtin.Kinds(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Protobuf == nil {
			if k.StoredAsServed() && k.Hub == k.Storage {
				t.Errorf("%s has no protobuf", k.GVK)
			}
			continue
		}
		t.Run(k.GVK.String(), func(t *testing.T) {
			if !k.Protobuf.Supported() {
				t.Fatal("has fields that nobody knows how to write")
			}
			seeds.Check(t, func(t *rapid.T) { checkProtobuf(t, k) })
		})
	}
}

func checkProtobuf(t *rapid.T, k *kinds.Kind) {
	object := k.New()
	texts{anyText, anyText}.fill(t, reflect.ValueOf(object).Elem(), 0)
	stored, err := runtime.Encode(k.StorageCodec, object)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := k.Protobuf.Append([]byte("before"), stored)
	if !ok || !bytes.Equal(got, append([]byte("before"), reencoded(t, k, stored)...)) {
		t.Fatalf("of %s: %v\n got %q\nwant %q", stored, ok, got, reencoded(t, k, stored))
	}
	strange := mutated(t, stored)
	if got, ok = k.Protobuf.Append(nil, strange); ok && !bytes.Equal(got, reencoded(t, k, strange)) {
		t.Fatalf("of %s:\n got %q\nwant %q", strange, got, reencoded(t, k, strange))
	}
}

// reencoded is what the decoder and the encoder make of a stored object.
func reencoded(t *rapid.T, k *kinds.Kind, stored []byte) []byte {
	t.Helper()
	object, err := runtime.Decode(k.StorageCodec, stored)
	if err != nil {
		t.Fatalf("transcoded what can't be decoded: %v: %s", err, stored)
	}
	encoded, err := object.(interface{ Marshal() ([]byte, error) }).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

// deepest is how deep objects are filled: beyond it all is zero.
const deepest = 9

// texts are what objects are filled with.
type texts struct {
	// names draws what may tell the members of a map or the elements of a list apart, values the rest.
	names, values func(*rapid.T) string
}

// fill gives a value something in some of its fields.
func (x texts) fill(t *rapid.T, v reflect.Value, depth int) {
	if examples, ok := exampleJSON()[v.Type().String()]; ok {
		if err := json.Unmarshal([]byte(rapid.SampledFrom(examples).Draw(t, "example")), v.Addr().Interface()); err != nil {
			t.Fatal(err)
		}
		return
	}
	if depth > deepest {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		if v.NumField() == 0 || v.Type().String() == "v1.TypeMeta" {
			return
		}
		for _, field := range v.Fields() {
			if rapid.IntRange(0, 2+depth/2).Draw(t, "has") == 0 && field.CanSet() {
				x.fill(t, field, depth+1)
			}
		}
		if depth == 0 {
			x.fill(t, v.FieldByName("ObjectMeta"), 1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		x.fill(t, v.Elem(), depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(x.values(t)))
			return
		}
		n := rapid.IntRange(0, 2).Draw(t, "elements")
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		element := texts{x.names, x.names} // any field of it may be a key
		for i := range n {
			element.fill(t, v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			name, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			name.SetString(x.names(t))
			x.fill(t, value, depth+1)
			v.SetMapIndex(name, value)
		}
	case reflect.String:
		v.SetString(x.values(t))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int32, reflect.Int64:
		i := rapid.Int32().Draw(t, "int")
		v.SetInt(int64(i) << rapid.SampledFrom([]int{0, max(0, v.Type().Bits()-32)}).Draw(t, "shift"))
	case reflect.Float64:
		v.SetFloat(float64(rapid.Int32().Draw(t, "float")) / 8)
	default:
		t.Fatalf("nobody knows how to fill %s", v.Type())
	}
}

func anyText(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"", "a", "name", `quoted "text" \ and \\`, "<&>", "line\nbreak", "\u2028", "ü", "{[]}", ",:"}), rapid.StringN(0, 12, -1)).Draw(t, "text")
}

// exampleJSON is of types that say themselves how they read JSON.
func exampleJSON() map[string][]string {
	return map[string][]string{
		"v1.Time":              {`null`, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05+02:00"`, `"1969-01-02T03:04:05Z"`},
		"v1.MicroTime":         {`null`, `"2026-01-02T03:04:05.000001Z"`, `"2026-01-02T03:04:05.123456+01:00"`},
		"v1.Duration":          {`"1h2m0s"`, `"-3ms"`},
		"v1.FieldsV1":          {`{}`, `{"f:a":{".":{},"k:{\"b\":\"c\"}":{}}}`},
		"resource.Quantity":    {`"0"`, `"1500m"`, `"3Gi"`, `"12e3"`, `7`},
		"intstr.IntOrString":   {`0`, `8080`, `"http"`, `"25%"`},
		"runtime.RawExtension": {`{"a":[1,{"b":"}"}]}`, `"text"`},
		"v1.JSON":              {`{"a":[1,null]}`, `"x"`, `1.5`, `true`},

		"v1.JSONSchemaPropsOrArray":       {`{"type":"string"}`, `[{"type":"string"}]`},
		"v1.JSONSchemaPropsOrBool":        {`true`, `false`, `{"type":"object"}`},
		"v1.JSONSchemaPropsOrStringArray": {`["a","b"]`, `{"type":"string"}`},
	}
}

// mutated returns a changed object, which may be one that no client would write.
func mutated(t *rapid.T, stored []byte) []byte {
	var object any
	d := json.NewDecoder(bytes.NewReader(stored))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		t.Fatal(err)
	}
	changed, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	from := rapid.SampledFrom([]string{`":"`, `":{`, `":[`, `":true`, `":`, `{`, `[`, `"a"`}).Draw(t, "where")
	to := rapid.SampledFrom([]string{
		`":null,"z":"`, `":1,"z":"`, `":[],"z":{`, `":{},"z":[`, ` : `, `":1.5,"z":"`, `":99999999999999999999,"z":"`, `":"x","z":"`,
		`{"metadata":{"name":"twice"},`, `{ "unknown" : [ { } ] , `, `[null,`, `["\u00fc",`, `"\ud800"`, `":-0,"z":"`,
	}).Draw(t, "what")
	if nth := strings.Index(string(changed), from); nth >= 0 {
		skip := rapid.IntRange(0, len(changed)-1).Draw(t, "from")
		if more := strings.Index(string(changed[skip:]), from); more >= 0 {
			nth = skip + more
		}
		strange := string(changed[:nth]) + to + string(changed[nth+len(from):])
		if json.Valid([]byte(strange)) {
			return []byte(strange)
		}
	}
	return changed
}
