package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// The first byte of a packed report is packedForm, which never starts JSON, and the second contains
// flags. The UID, the digest and the numbers follow in binary, and then the rest of the JSON.
const (
	packedForm = 1

	hasGeneration = 1
	hasDigest     = 2
	hasSince      = 4
	hasRest       = 8
	healthShift   = 4 // the health is in the other half of the flags
)

// packedStates and packedHealths are numbered by position. New values are only appended, since logs
// contain the numbers.
var (
	packedStates  = []State{Applied, Failed, Held, InConflict, Unsupported, Waiting, Removing, Orphaned, Removed, Present}
	packedHealths = []Health{"", Healthy, Progressing, Degraded, HealthUnknown}
)

// uidDashes are the positions of the dashes in a UID.
var uidDashes = []int{8, 13, 18, 23}

// PackReport makes the JSON of a Report of a placed object shorter for log and table. The fields
// that nearly all reports have take 60 bytes instead of 200. A report that could not be unpacked to
// the same bytes stays JSON.
func PackReport(text []byte) []byte {
	packed, ok := pack(text)
	if !ok || !bytes.Equal(ReportText(packed), text) {
		return text
	}
	return slices.Clip(packed)
}

func pack(text []byte) (packed []byte, ok bool) {
	in := scanner{text, true}
	uid, ok := packUID(in.text(`{"uid":"`))
	if !ok {
		return nil, false
	}
	flags := byte(0)
	generation, err := strconv.ParseUint(string(in.number(`,"generation":`)), 10, 64)
	if err == nil {
		flags |= hasGeneration
	}
	var digest Sum
	if digest.UnmarshalText(in.text(`,"digest":"`)) != nil {
		return nil, false
	}
	if !digest.IsZero() {
		flags |= hasDigest
	}
	state := slices.Index(packedStates, State(in.text(`,"state":"`)))
	if !in.ok || state < 0 {
		return nil, false
	}
	since, err := time.Parse(time.RFC3339, string(in.option(`,"since":"`)))
	if err == nil && since.Unix() > 0 {
		flags |= hasSince
	}
	health := max(0, slices.Index(packedHealths, Health(in.option(`,"health":"`))))
	if rest := string(in.left); rest != "}" {
		flags |= hasRest
	}
	b := make([]byte, 0, len(text))
	b = append(append(b, packedForm, flags|byte(health)<<healthShift, byte(state)), uid...) // few values of both exist
	if flags&hasGeneration != 0 {
		b = binary.AppendUvarint(b, generation)
	}
	if flags&hasDigest != 0 {
		for _, word := range digest {
			b = binary.BigEndian.AppendUint64(b, word)
		}
	}
	if flags&hasSince != 0 {
		b = binary.AppendUvarint(b, uint64(since.Unix())) // it is positive
	}
	if flags&hasRest != 0 {
		b = append(b, in.left...)
	}
	return b, true
}

// ReportText returns the JSON of a report that is packed or JSON; empty for other bytes. The caller
// must not change it.
func ReportText(kept []byte) []byte {
	if len(kept) == 0 || kept[0] != packedForm {
		return kept
	}
	const head = 3 + 16
	if len(kept) < head || int(kept[2]) >= len(packedStates) || int(kept[1]>>healthShift) >= len(packedHealths) {
		return nil
	}
	flags, state, health, left := kept[1], packedStates[kept[2]], packedHealths[kept[1]>>healthShift], kept[head:]
	b := make([]byte, 0, len(kept)+200)
	b = append(b, `{"uid":"`...)
	for i, word := range kept[3:head] {
		b = hex.AppendEncode(b, []byte{word})
		if slices.Contains([]int{3, 5, 7, 9}, i) {
			b = append(b, '-')
		}
	}
	b = append(b, '"')
	if flags&hasGeneration != 0 {
		n, size := binary.Uvarint(left)
		if size <= 0 {
			return nil
		}
		b, left = strconv.AppendUint(append(b, `,"generation":`...), n, 10), left[size:]
	}
	b = append(b, `,"digest":"`...)
	if flags&hasDigest != 0 {
		if len(left) < 32 {
			return nil
		}
		b, left = hex.AppendEncode(b, left[:32]), left[32:]
	}
	b = append(append(append(b, `","state":"`...), state...), '"')
	if flags&hasSince != 0 {
		n, size := binary.Uvarint(left)
		if size <= 0 {
			return nil
		}
		since := time.Unix(int64(n), 0).UTC() // no report has such a date
		b, left = append(since.AppendFormat(append(b, `,"since":"`...), time.RFC3339), '"'), left[size:]
	}
	if health != "" {
		b = append(append(append(b, `,"health":"`...), health...), '"')
	}
	if flags&hasRest != 0 {
		return append(b, left...)
	}
	return append(b, '}')
}

// packUID returns the bytes of a UID in the format of Kubernetes.
func packUID(uid []byte) (b []byte, ok bool) {
	if len(uid) != 36 {
		return nil, false
	}
	digits := make([]byte, 0, 32)
	for i, c := range uid {
		if !slices.Contains(uidDashes, i) {
			digits = append(digits, c)
		}
	}
	b, err := hex.AppendDecode(nil, digits)
	return b, err == nil
}

// scanner parses the beginning of a report's JSON.
type scanner struct {
	left []byte
	// ok reports whether all required fields were present.
	ok bool
}

// text returns the text after a prefix, up to the next quote. The prefix is required.
func (s *scanner) text(prefix string) []byte {
	before := len(s.left)
	v := s.option(prefix)
	s.ok = s.ok && len(s.left) < before
	return v
}

// option is text for an optional prefix.
func (s *scanner) option(prefix string) []byte {
	rest, found := bytes.CutPrefix(s.left, []byte(prefix))
	if !found {
		return nil
	}
	v, rest, found := bytes.Cut(rest, []byte{'"'})
	if !found {
		return nil
	}
	s.left = rest
	return v
}

// number returns the digits after an optional prefix.
func (s *scanner) number(prefix string) []byte {
	rest, found := bytes.CutPrefix(s.left, []byte(prefix))
	if !found {
		return nil
	}
	n := 0
	for n < len(rest) && '0' <= rest[n] && rest[n] <= '9' {
		n++
	}
	s.left = rest[n:]
	return rest[:n]
}
