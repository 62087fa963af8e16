package protobuf

import (
	"encoding"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
)

// codec is how single values of a type are written.
func (p *planner) codec(t reflect.Type) *codec {
	switch {
	case is[json.Unmarshaler](t):
		return p.decoded(t, func(into any, value []byte) error { return into.(json.Unmarshaler).UnmarshalJSON(value) })
	case t.Kind() != reflect.Struct && is[generated](t):
		return p.decoded(t, func(into any, value []byte) error { return json.Unmarshal(value, into) })
	case is[encoding.TextUnmarshaler](t):
		return p.unknown()
	case isBytes(t):
		return &codec{wireLength, writeBase64}
	}
	switch t.Kind() {
	case reflect.Struct:
		return &codec{wireLength, p.message(t).encode}
	case reflect.String:
		return &codec{wireLength, writeText}
	case reflect.Bool:
		return &codec{wireVarint, writeBool}
	case reflect.Int32, reflect.Int64:
		return &codec{wireVarint, func(w *writer, value []byte) bool { return writeInt(w, value, t.Bits()) }}
	case reflect.Float64:
		return &codec{wireFixed64, writeFloat}
	}
	return p.unknown()
}

// unknown returns a codec for unsupported types: it fails, so that their objects are decoded.
func (p *planner) unknown() *codec {
	p.complete = false
	return &codec{wireLength, func(*writer, []byte) bool { return false }}
}

// decoded is for types that say themselves how they read JSON: times, quantities, and the like.
func (p *planner) decoded(t reflect.Type, read func(into any, value []byte) error) *codec {
	if !is[generated](t) {
		return p.unknown()
	}
	return &codec{wireLength, func(w *writer, value []byte) bool {
		v := reflect.New(t).Interface().(generated)
		return read(v, value) == nil && marshal(w, v)
	}}
}

// marshal writes a value by its own methods.
func marshal(w *writer, v generated) bool {
	n, err := v.MarshalToSizedBuffer(w.room(v.Size()))
	w.begin -= n
	return err == nil
}

func writeText(w *writer, value []byte) bool {
	content, ok := text(value)
	w.bytes(content)
	return ok
}

func writeBool(w *writer, value []byte) bool {
	switch string(value) {
	case "true":
		w.byte(1)
	case "false":
		w.byte(0)
	default:
		return false
	}
	return true
}

func writeInt(w *writer, value []byte, size int) bool {
	i, err := strconv.ParseInt(string(value), 10, size)
	w.varint(uint64(i))
	return err == nil && value[0] != '+'
}

func writeFloat(w *writer, value []byte) bool {
	f, err := strconv.ParseFloat(string(value), 64)
	w.bytes(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
	return err == nil
}

func writeBase64(w *writer, value []byte) bool {
	content, ok := text(value)
	if !ok {
		return false
	}
	decoded, err := base64.StdEncoding.AppendDecode(nil, content)
	w.bytes(decoded)
	return err == nil
}
