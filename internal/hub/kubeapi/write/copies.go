package write

import (
	"sync/atomic"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// maxCopied limits by how many bytes the copies of a JSON Patch may enlarge an object, as in a
// kube-apiserver: each copy can double its size.
const maxCopied = 3 << 20

// boundCopies sets maxCopied in the library for the whole process: the library has no other setting.
func boundCopies() { atomic.CompareAndSwapInt64(&jsonpatch.AccumulatedCopySizeLimit, 0, maxCopied) }
