package wire

import (
	"io"
	"net/http"
)

// pieceBytes is the maximum number of bytes of a body that are sent together.
const pieceBytes = 4 << 10

// InPieces sends the body of an agent's request in pieces. HTTP/2 makes one frame of each read, and
// TLS one record. For each connection the hub keeps a buffer of the largest frame and record so
// far, and it has a connection to each agent.
func InPieces(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = pieces{r.Body}
	}
}

type pieces struct{ io.ReadCloser }

func (p pieces) Read(b []byte) (int, error) { return p.ReadCloser.Read(b[:min(len(b), pieceBytes)]) }
