package seal

import (
	"errors"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// redacted is an error without the keys of the file that it is about: the validation of
// k8s.io/apiserver shows the whole of a provider that it refuses.
func redacted(err error, file string) error {
	text := err.Error()
	data, failed := os.ReadFile(file)
	if failed != nil {
		return err
	}
	var content any
	if yaml.Unmarshal(data, &content) != nil { // then nothing of it was looked at
		return err
	}
	for _, secret := range secretsIn(content) {
		text = strings.ReplaceAll(text, secret, "REDACTED")
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
