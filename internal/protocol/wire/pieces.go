package wire

import (
	"io"
	"net/http"
)

// pieceBytes is how much of a body is sent at once.
const pieceBytes = 4 << 10

// InPieces has the body of an agent's request sent in pieces. HTTP/2 makes one frame of what it
// reads at once, and TLS one record. Of the largest of each that ever came over a connection the hub
// keeps a buffer while the connection lasts, and it has one of each agent.
func InPieces(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = pieces{r.Body}
	}
}

type pieces struct{ io.ReadCloser }

func (p pieces) Read(b []byte) (int, error) { return p.ReadCloser.Read(b[:min(len(b), pieceBytes)]) }
