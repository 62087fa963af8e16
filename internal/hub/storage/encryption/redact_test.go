package encryption

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestErrorsShowNoKey: errors about any invalid file contain no key, in any notation.
func TestErrorsShowNoKey(t *testing.T) {
	const part = "SGVyZUlzQS" // of each key here
	for what, provider := range map[string]string{
		"too short":             "secretbox: {keys: [{name: k, secret: " + part + "}]}",
		"with a line's end":     "secretbox: {keys: [{name: k, secret: \"" + part + "==\\n\"}]}",
		"over lines":            "secretbox: {keys: [{name: k, secret: \"" + part + "\\n" + part + "\"}]}",
		"with odd characters":   "secretbox: {keys: [{name: k, secret: \"" + part + "<\\\"&>\\u2028é\"}]}",
		"twice":                 "secretbox: {keys: [{name: k, secret: " + part + "}, {name: k, secret: " + part + "A}]}",
		"a number":              "secretbox: {keys: [{name: k, secret: 1234567890123456}]}",
		"in another place":      "secretbox: {keys: [{name: k, key: " + part + "}]}",
		"as a name":             "secretbox: {keys: [{name: " + part + "}]}",
		"as a list":             "secretbox: {keys: [{name: k, secret: [" + part + "]}]}",
		"as keys":               "secretbox: {keys: " + part + "}",
		"no YAML":               "secretbox: {keys: [{name: k, secret: " + part,
		"a tab":                 "secretbox:\n\t\tsecret: " + part,
		"of another cipher":     "aesgcm: {keys: [{name: k, secret: " + part + "}]}",
		"two in one":            "{aescbc: {keys: [{name: k, secret: " + part + "}]}, secretbox: {keys: [{name: k, secret: " + part + "B}]}}",
		"two, and a line's end": "{aescbc: {keys: [{name: k, secret: \"" + part + "\\n\"}]}, secretbox: {keys: []}}",
	} {
		file := filepath.Join(t.TempDir(), "keys.yaml")
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  providers:\n  - " + provider + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(file, slog.New(slog.DiscardHandler))
		if err == nil {
			s.Close()
			t.Errorf("%s: it is taken", what)
			continue
		}
		if strings.Contains(err.Error(), part) && what != "as a name" || strings.Contains(err.Error(), "1234567890123456") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestErrorsOfAFileThatIsWritten: an error about half of a file contains no part of it, although
// the file has changed by then.
func TestErrorsOfAFileThatIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("secret: the-whole-of-a-key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := redacted(errors.New("what is this: the-whole"), file, []byte("secret: the-whole")); strings.Contains(err.Error(), "whole") {
		t.Error(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := redacted(errors.New("what is this: the-whole"), file, []byte("secret: the-whole")); strings.Contains(err.Error(), "whole") {
		t.Error(err)
	}
}
