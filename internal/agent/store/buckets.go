package store

import bolt "go.etcd.io/bbolt"

// The buckets of the file.
var (
	metaBucket    = []byte("meta")    // one value: Meta, and its hash
	desiredBucket = []byte("desired") // object path -> Want and object
	recordBucket  = []byte("record")  // identity -> Record
	reportBucket  = []byte("reports") // object path -> newest report
	unsentBucket  = []byte("unsent")  // object path -> sequence number of a report that the hub has not acknowledged
	guardBucket   = []byte("guarded") // identity -> removal that waits for a confirmation
	statusBucket  = []byte("status")  // identity -> Live
	metaKey       = []byte("meta")
)

// valueBuckets returns all buckets but that of Meta.
func valueBuckets() [][]byte {
	return [][]byte{desiredBucket, recordBucket, reportBucket, unsentBucket, guardBucket, statusBucket}
}

// storedValue returns the bytes that a bucket stores for a key, encrypted or not, and whether the
// key exists. For an empty value that was put in the same transaction, bbolt's Get returns nil, as
// if the key did not exist; so this uses a cursor.
func storedValue(b *bolt.Bucket, k string) (v []byte, ok bool) {
	found, v := b.Cursor().Seek([]byte(k))
	if found == nil || string(found) != k {
		return nil, false
	}
	return v, true
}
