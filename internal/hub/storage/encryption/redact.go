package encryption

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// errChanging replaces errors about a file that is being written.
var errChanging = errors.New("the file has changed while it was read")

// redacted removes the keys in a file from an error about it. before is the content of the file
// before it was read. The validation of k8s.io/apiserver prints the whole provider that it refuses.
func redacted(err error, file string, before []byte) error {
	now, failed := os.ReadFile(file)
	if failed != nil || !bytes.Equal(before, now) { // the keys in between are unknown
		return errors.Join(errChanging, failed)
	}
	var content any
	if yaml.Unmarshal(now, &content) != nil { // then nothing of it was validated
		return err
	}
	text := err.Error()
	for _, secret := range secretsIn(content) {
		for _, fragment := range append(strings.Fields(secret), secret) { // line breaks are printed differently
			text = strings.ReplaceAll(text, fragment, "REDACTED")
		}
	}
	return errors.New(text)
}

// secretsIn returns the values of all fields with the name of a key's secret.
func secretsIn(content any) (all []string) {
	switch content := content.(type) {
	case map[string]any:
		for name, value := range content {
			if text, ok := value.(string); ok && strings.EqualFold(name, "secret") && text != "" {
				all = append(all, text)
			}
			all = append(all, secretsIn(value)...)
		}
	case []any:
		for _, value := range content {
			all = append(all, secretsIn(value)...)
		}
	}
	return all
}
