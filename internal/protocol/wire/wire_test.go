package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"orrery.dev/orrery/test/support/seeds"
)

var sums = rapid.Custom(func(t *rapid.T) Sum {
	var s Sum
	for i := range s {
		s[i] = rapid.Uint64().Draw(t, "word")
	}
	return s
})

func TestSumIsAGroup(t *testing.T) {
	seeds.Check(t, func(t *rapid.T) {
		a, b, c := sums.Draw(t, "a"), sums.Draw(t, "b"), sums.Draw(t, "c")
		if a.Add(b) != b.Add(a) || a.Add(b).Add(c) != a.Add(b.Add(c)) {
			t.Error("the order of additions matters")
		}
		if a.Add(b).Sub(b) != a || !a.Sub(a).IsZero() {
			t.Error("a subtraction does not undo an addition")
		}
		text, err := a.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Sum
		if err := back.UnmarshalText(text); err != nil || back != a {
			t.Errorf("%s came back as %s: %v", a, back, err)
		}
	})
}

func TestLeafSumTellsItsPartsApart(t *testing.T) {
	digest := SumOf([]byte("object"))
	seen := map[Sum]string{}
	for _, c := range []struct {
		key, uid string
		policy   Policy
	}{
		{"a", "b", Policy{}}, {"ab", "", Policy{}}, {"", "ab", Policy{}}, {"a", "b", Policy{ReturnStatus: true}},
	} {
		s, name := LeafSum(c.key, c.uid, digest, c.policy), fmt.Sprint(c)
		if other, ok := seen[s]; ok {
			t.Errorf("%s and %s have the same sum", name, other)
		}
		seen[s] = name
	}
}

func TestJoin(t *testing.T) {
	j := Join{Hub: "https://hub.example:6443", CA: "-----BEGIN CERTIFICATE-----\n", Location: "paris", Token: "hush"}
	back, err := ParseJoin("  " + j.Encode() + "=\n")
	if err != nil || back != j {
		t.Errorf("got %v, %v", back, err)
	}
	for _, s := range []string{fmt.Sprint(j), fmt.Sprintf("%+v %#v", j, j)} {
		if strings.Contains(s, "hush") {
			t.Errorf("%q shows the secret", s)
		}
	}
	for _, bad := range []string{"", "%", j.Encode()[:20], Join{Hub: "https://h"}.Encode(), Join{Hub: "ftp://h", CA: "c", Location: "l", Token: "t"}.Encode()} {
		if _, err := ParseJoin(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestCodec(t *testing.T) {
	var b bytes.Buffer
	enc := NewEncoder(&b)
	object := []byte(`{"data":{"html":"<a&b>\u2028"},"kind":"ConfigMap"}`)
	frames := []Frame{
		{Put: &Put{Key: "s/core/configmaps/n/a", UID: "1", Digest: SumOf(object), Object: object}},
		{Put: &Put{Key: "s/core/configmaps/n/b", UID: "2", Object: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}},
		{Ping: &Ping{}},
	}
	for _, f := range frames {
		if err := enc.Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	whole := b.String()
	dec := NewDecoder(iotest.HalfReader(strings.NewReader(whole)))
	for i, want := range frames {
		var f Frame
		if err := dec.Decode(&f); err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if want.Put != nil && (!bytes.Equal(f.Put.Object, want.Put.Object) || f.Put.Digest != want.Put.Digest) {
			t.Errorf("frame %d: the object's bytes changed", i)
		}
	}
	var f Frame
	if err := dec.Decode(&f); !errors.Is(err, io.EOF) {
		t.Errorf("after the last line: %v", err)
	}
	dec = NewDecoder(strings.NewReader(whole[:100]))
	if err := dec.Decode(&f); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("cut within a line: %v", err)
	}
	dec = NewDecoder(io.MultiReader(strings.NewReader(strings.Repeat("x", MaxLine+1)), strings.NewReader("\n")))
	if err := dec.Decode(&f); !errors.Is(err, ErrLineTooLong) {
		t.Errorf("a line without end: %v", err)
	}
}

func FuzzDecodeFrame(f *testing.F) {
	f.Add([]byte(`{"put":{"key":"s/core/configmaps/n/a","uid":"1","digest":"","policy":{},"object":{}}}` + "\n"))
	f.Add([]byte("{\"hello\":{}}\n\n{\"mark\":{\"root\":\"zz\"}}\n"))
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dec := NewDecoder(bytes.NewReader(b))
		for range len(b) + 1 {
			var frame Frame
			if err := dec.Decode(&frame); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return
			}
		}
		t.Error("the decoder does not end")
	})
}
