package env

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// FilesWith are the files below directories that have some text.
func FilesWith(t testing.TB, text string, dirs ...string) (in []string) {
	t.Helper()
	for _, dir := range dirs {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if bytes.Contains(content, []byte(text)) {
				in = append(in, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return in
}
