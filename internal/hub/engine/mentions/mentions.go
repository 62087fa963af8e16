// Package mentions indexes the names that objects mention, of things that may not exist. Users choose
// the names, so that the index takes little more memory than they do.
package mentions

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"strings"

	"github.com/tidwall/btree"
)

// Index has, for each name, the keys of the objects that mention it. It takes about 40 bytes for each of
// them besides the key, which it shares. It is not safe for concurrent use.
type Index struct {
	all *btree.BTreeG[mention]
}

// mention is an object and the hash of a name. Names with the same hash are taken for one, so that all
// that an object no longer mentions are removed before others are added.
type mention struct {
	name uint64
	key  string
}

// New makes an empty Index.
func New() Index {
	return Index{btree.NewBTreeGOptions(func(a, b mention) bool {
		return cmp.Or(cmp.Compare(a.name, b.name), strings.Compare(a.key, b.key)) < 0
	}, btree.Options{NoLocks: true})}
}

func hash(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// Add notes that the object of a key mentions a name.
func (x Index) Add(name, key string) { x.all.Set(mention{hash(name), key}) }

// Remove notes that it no longer does.
func (x Index) Remove(name, key string) { x.all.Delete(mention{hash(name), key}) }

// Keys are those of the objects that mention a name, in order, and perhaps of very few that mention
// another.
func (x Index) Keys(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		h := hash(name)
		x.all.Ascend(mention{name: h}, func(m mention) bool { return m.name == h && yield(m.key) })
	}
}

// Equal reports whether two Indexes have the same.
func (x Index) Equal(o Index) bool {
	if x.all.Len() != o.all.Len() {
		return false
	}
	equal := true
	x.all.Scan(func(m mention) bool {
		_, equal = o.all.Get(m)
		return equal
	})
	return equal
}
