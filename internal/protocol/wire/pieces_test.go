package wire

import (
	"bytes"
	"io"
	"net/http"
	"testing"
)

// A body in pieces has the same content and length, and no piece exceeds the limit.
func TestInPieces(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), pieceBytes/4)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	InPieces(r)
	if r.ContentLength != int64(len(body)) {
		t.Errorf("the length is %d, want %d", r.ContentLength, len(body))
	}
	var got []byte
	for b := make([]byte, 2*len(body)); err == nil; {
		var n int
		if n, err = r.Body.Read(b); n > pieceBytes {
			t.Errorf("a piece has %d bytes", n)
		}
		got = append(got, b[:n]...)
	}
	if err != io.EOF || !bytes.Equal(got, body) { //nolint:errorlint // readers return io.EOF unwrapped
		t.Errorf("%d bytes come, then %v", len(got), err)
	}
	if r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, "https://hub", http.NoBody); err != nil {
		t.Fatal(err)
	}
	if InPieces(r); r.Body != http.NoBody {
		t.Error("no body is one in pieces")
	}
}
