package write

import (
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// maxCopied is by how many bytes the copies of a JSON Patch may make an object larger, as in
// a kube-apiserver: each copy can double it.
const maxCopied = 3 << 20

// boundCopies sets that in the library, for the whole process: it takes it from nowhere else.
func boundCopies() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopied) }
