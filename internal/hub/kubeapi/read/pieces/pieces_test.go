package pieces

import (
	"bytes"
	"testing"

	"orrery.dev/orrery/test/support/seeds"
)

// writes remembers single writes.
type writes [][]byte

func (w *writes) Write(b []byte) (int, error) {
	*w = append(*w, bytes.Clone(b))
	return len(b), nil
}

// TestPieces shows that everything arrives in order, the first Write as it was,
// and the rest in few.
func TestPieces(t *testing.T) {
	var got writes
	p := New(&got, &bytes.Buffer{})
	var all []byte
	random := seeds.Rand(t, 1)
	for i := range 1000 {
		b := bytes.Repeat([]byte{byte(i)}, random.IntN(2000))
		switch i {
		case 0:
			b = []byte("{")
		case 500:
			b = bytes.Repeat([]byte("x"), 3*Bytes)
		}
		all = append(all, b...)
		if n, err := p.Write(b); n != len(b) || err != nil {
			t.Fatal(n, err)
		}
	}
	for range 2 {
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(bytes.Join(got, nil), all) || len(got[0]) != 1 {
		t.Error("something else was written")
	}
	if most := 2*len(all)/Bytes + 4; len(got) > most {
		t.Errorf("%d writes", len(got))
	}
}
