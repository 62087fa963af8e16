package immutable

import (
	"fmt"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// Restored is a body in which fields have the values that they have in the live object, or
// none if they have none there.
func Restored(body []byte, live string, fields []Field) (restored []byte, err error) {
	restored = body
	for _, f := range fields {
		for _, path := range f.Paths {
			if restored, err = set(restored, path, gjson.Get(live, path)); err != nil {
				return nil, err
			}
		}
		for _, path := range f.Except {
			if restored, err = set(restored, path, gjson.GetBytes(body, path)); err != nil {
				return nil, err
			}
		}
	}
	return restored, nil
}

func set(body []byte, path string, value gjson.Result) ([]byte, error) {
	var err error
	switch {
	case value.Exists():
		body, err = sjson.SetRawBytes(body, path, []byte(value.Raw))
	case gjson.GetBytes(body, path).Exists():
		body, err = sjson.DeleteBytes(body, path)
	}
	if err != nil {
		return nil, fmt.Errorf("restore %s: %w", path, err)
	}
	return body, nil
}
