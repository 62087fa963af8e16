package encryption

import (
	"bytes"
	"errors"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// errChanging stands for what is wrong with a file that is being written.
var errChanging = errors.New("the file has changed while it was read")

// redacted is an error without the keys of the file that it is about, which had a content
// before it was read: the validation of k8s.io/apiserver shows the whole of a provider that
// it refuses.
func redacted(err error, file string, before []byte) error {
	now, failed := os.ReadFile(file)
	if failed != nil || !bytes.Equal(before, now) { // nobody knows what keys it had in between
		return errors.Join(errChanging, failed)
	}
	var content any
	if yaml.Unmarshal(now, &content) != nil { // then nothing of it was looked at
		return err
	}
	text := err.Error()
	for _, secret := range secretsIn(content) {
		for _, part := range append(strings.Fields(secret), secret) { // ends of lines are shown in another way
			text = strings.ReplaceAll(text, part, "REDACTED")
		}
	}
	return errors.New(text)
}

// secretsIn are the values of all fields of the name of a key's.
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
