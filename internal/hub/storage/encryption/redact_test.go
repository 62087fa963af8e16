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
	const secret = "SGVyZUlzQS" // of each key here
	for what, provider := range map[string]string{
		"too short":             "secretbox: {keys: [{name: k, secret: " + secret + "}]}",
		"with a line's end":     "secretbox: {keys: [{name: k, secret: \"" + secret + "==\\n\"}]}",
		"over lines":            "secretbox: {keys: [{name: k, secret: \"" + secret + "\\n" + secret + "\"}]}",
		"with odd characters":   "secretbox: {keys: [{name: k, secret: \"" + secret + "<\\\"&>\\u2028é\"}]}",
		"twice":                 "secretbox: {keys: [{name: k, secret: " + secret + "}, {name: k, secret: " + secret + "A}]}",
		"a number":              "secretbox: {keys: [{name: k, secret: 1234567890123456}]}",
		"in another place":      "secretbox: {keys: [{name: k, key: " + secret + "}]}",
		"as a name":             "secretbox: {keys: [{name: " + secret + "}]}",
		"as a list":             "secretbox: {keys: [{name: k, secret: [" + secret + "]}]}",
		"as keys":               "secretbox: {keys: " + secret + "}",
		"no YAML":               "secretbox: {keys: [{name: k, secret: " + secret,
		"a tab":                 "secretbox:\n\t\tsecret: " + secret,
		"of another cipher":     "aesgcm: {keys: [{name: k, secret: " + secret + "}]}",
		"two in one":            "{aescbc: {keys: [{name: k, secret: " + secret + "}]}, secretbox: {keys: [{name: k, secret: " + secret + "B}]}}",
		"two, and a line's end": "{aescbc: {keys: [{name: k, secret: \"" + secret + "\\n\"}]}, secretbox: {keys: []}}",
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
		if strings.Contains(err.Error(), secret) && what != "as a name" || strings.Contains(err.Error(), "1234567890123456") {
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
