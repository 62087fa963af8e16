package store

import (
	"bytes"
	"compress/gzip"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// formatSecret is the secret of the encrypted store in testdata/format.
var formatSecret = []byte("the secret of the stores in testdata")

// inOrder returns the entries of a map in the order of their keys.
func inOrder[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// formatStore is the directory with a copy of a store of testdata/format. The agent that wrote the store was
// killed, so the next start inspects it.
func formatStore(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "format", name+".db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFormatRead reads stores that an older agent wrote: every field of every bucket.
func TestFormatRead(t *testing.T) {
	for name, secret := range map[string][]byte{"plain": nil, "encrypted": formatSecret} {
		t.Run(name, func(t *testing.T) {
			dir := formatStore(t, name)
			s, err := openBy(t, dir, secret)
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, s)
			if aside := asides(t, dir); len(aside) > 0 {
				t.Fatalf("%v was set aside", aside)
			}
			if s.Encrypted() != (secret != nil) {
				t.Errorf("the store is encrypted: %t", s.Encrypted())
			}
			readFormat(t, s)
		})
	}
}

func readFormat(t *testing.T, s *Store) {
	t.Helper()
	compareMeta(t, s.Meta())
	if err := s.View(func(x *Tx) error {
		for path, want := range formatWants {
			w, object, err := x.Desired.Get(path)
			if err != nil || w == nil || !reflect.DeepEqual(*w, want) || (w.Object() != nil) != bytes.Equal(object, formatObject) {
				t.Errorf("desired entry of %q: %+v with the object %s, %v", path, w, object, err)
			}
		}
		for id, want := range formatRecords {
			if r, err := x.Records.Get(id); err != nil || r == nil || !reflect.DeepEqual(*r, want) {
				t.Errorf("record of %q: %+v, %v", id, r, err)
			}
		}
		for line, want := range formatReports {
			r, err := x.Reports.Get(line)
			if err != nil || r == nil || !reflect.DeepEqual(*r, want) || x.Reports.IsUnsent(line) == (want.UID == "sent-uid") {
				t.Errorf("report of %q: %+v, unsent: %t, %v", line, r, x.Reports.IsUnsent(line), err)
			}
		}
		if !x.Reports.IsUnsent("s/core/configmaps/n/removed") {
			t.Error("the absence of a report is not unsent")
		}
		lives := maps.Clone(formatLives)
		lives["core/configmaps/n/old"], lives["core/configmaps/n/empty"] = Live{Status: formatStatus}, Live{}
		for id, want := range lives {
			l, err := x.Observed.Get(id)
			if l != nil && len(l.Status) == 0 {
				l.Status = nil
			}
			if err != nil || l == nil || !reflect.DeepEqual(*l, want) {
				t.Errorf("observed object of %q: %+v, %v", id, l, err)
			}
		}
		for id, want := range formatRemovals {
			var p pendingRemoval
			if ok, err := x.getJSON(guardBucket, id, &p); !ok || err != nil || p != want {
				t.Errorf("pending removal of %q: %+v, %v", id, p, err)
			}
		}
		for _, b := range []struct {
			name []byte
			want int
		}{{desiredBucket, len(formatWants)}, {recordBucket, len(formatRecords)}, {reportBucket, len(formatReports)}, {unsentBucket, len(formatReports)},
			{statusBucket, len(lives)}, {guardBucket, len(formatRemovals)}} {
			if n := x.bucket(b.name).Stats().KeyN; n != b.want {
				t.Errorf("bucket %q has %d entries, want %d", b.name, n, b.want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// compareMeta compares a stored Meta with formatMeta and with the other values.
func compareMeta(t *testing.T, m *Meta) {
	t.Helper()
	want := formatMeta
	want.Count, want.Deferred, want.Unsent = len(formatWants), 2, len(formatReports)
	want.Moves = uint64(len(formatRecords)) + 1 // and a report of completion
	for path, w := range formatWants {
		want.Root = want.Root.Add(w.Sum(path))
	}
	got := *m
	got.Written, got.Outdated = wire.Sum{}, false // Inspect has compared Written with the values
	got.Prune = slices.Clone(got.Prune)
	for i := range got.Prune {
		got.Prune[i].begin = want.Prune[i].begin // it is not stored
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("meta is %+v, want %+v", got, want)
	}
}

// TestFormatOutdated sets aside a store that an older agent marked as outdated.
func TestFormatOutdated(t *testing.T) {
	dir := formatStore(t, "outdated")
	db, err := bolt.Open(filepath.Join(dir, File), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(b *bolt.Tx) error {
		m, err := readMeta(b)
		if err == nil && !m.Outdated {
			t.Error("the store is not outdated")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, dir, nil))
	if len(asides(t, dir)) != 1 {
		t.Error("the outdated store is still in use")
	}
}

// TestFormatWritten writes the values of testdata/format. The agent that wrote those files can read the
// result, since it would have written the same bytes.
func TestFormatWritten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := write(s, func(x *Tx) error { return writeFormat(x, false) }); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	written, want := filepath.Join(dir, File), filepath.Join(formatStore(t, "plain"), File)
	if other := differences(dumped(t, written), dumped(t, want)); len(other) > 0 {
		t.Errorf("this agent writes other values than the older one: %v", other)
	}
	if a, b := sequenceOf(t, written), sequenceOf(t, want); a != b {
		t.Errorf("the last sequence number is %d, want %d", a, b)
	}
}

// sequenceOf returns the last sequence number of unsent reports.
func sequenceOf(t *testing.T, file string) (n uint64) {
	t.Helper()
	db, err := bolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(b *bolt.Tx) error { n = b.Bucket(unsentBucket).Sequence(); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFormatComplete checks that the values set every stored field, so that the tests above compare it. A
// field that is added to a stored type is not in testdata/format: list it here.
func TestFormatComplete(t *testing.T) {
	added := map[string]bool{"Meta.Moved": true, "Report.Diagnosis": true, "Live.Diagnosis": true, "Live.IsSuspect": true}
	meta := formatMeta
	meta.Root, meta.Written, meta.Count, meta.Deferred, meta.Unsent, meta.Moves, meta.Outdated = wire.SumOf(nil), wire.SumOf(nil), 1, 1, 1, 1, true
	for _, v := range []any{
		meta, formatWants["s/apps/deployments/n/held"], formatRecords[formatID], formatReports["s/"+formatID], formatLives[formatID],
		formatRemovals[formatID], meta.Guarded[formatRemovals[formatID].group()],
	} {
		for _, path := range unset(reflect.ValueOf(v), reflect.TypeOf(v).Name()) {
			if !added[path] {
				t.Errorf("%s has no value", path)
			}
		}
	}
	for _, name := range valueBuckets() {
		if !slices.ContainsFunc([][]byte{desiredBucket, recordBucket, reportBucket, unsentBucket, guardBucket, statusBucket}, func(known []byte) bool { return bytes.Equal(known, name) }) {
			t.Errorf("no test reads bucket %q", name)
		}
	}
}

// unset returns the exported fields below a value that have the zero value.
func unset(v reflect.Value, path string) (all []string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return []string{path}
		}
		return unset(v.Elem(), path)
	}
	if v.IsZero() {
		return []string{path}
	}
	if v.Kind() != reflect.Struct || v.Type() == reflect.TypeFor[key.Shard]() {
		return nil
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !f.IsExported() || f.Type == reflect.TypeFor[wire.Policy]() && path != "Record.Source" {
			continue
		}
		all = append(all, unset(v.Field(i), path+"."+f.Name)...)
	}
	return all
}
