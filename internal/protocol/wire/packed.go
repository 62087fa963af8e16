package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"time"
)

// Of a packed report, the first byte is packedForm, which no JSON begins with, and the second
// has flags. The UID, the digest and the numbers follow as bytes, and then the rest of the JSON.
const (
	packedForm = 1

	hasGeneration = 1
	hasDigest     = 2
	hasSince      = 4
	hasRest       = 8
	healthShift   = 4 // the health is in the other half of the flags
)

// packedStates and packedHealths are numbered by their places, so nothing is ever put before
// another, nor taken away: logs have the numbers.
var (
	packedStates  = []State{Applied, Failed, Held, InConflict, Unsupported, Waiting, Removing, Orphaned, Removed, Present}
	packedHealths = []Health{"", Healthy, Progressing, Degraded, HealthUnknown}
)

// uidDashes are where the dashes of a UID are.
var uidDashes = []int{8, 13, 18, 23}

// PackReport makes the JSON of a Report shorter, as the log and the table keep those of placed
// objects: what nearly all of them have takes 60 bytes and not 200. What it can't give back as it
// is, byte by byte, stays JSON.
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
	b = append(append(b, packedForm, flags|byte(health)<<healthShift, byte(state)), uid...) // #nosec G115 -- there are few of both
	if flags&hasGeneration != 0 {
		b = binary.AppendUvarint(b, generation)
	}
	if flags&hasDigest != 0 {
		for _, part := range digest {
			b = binary.BigEndian.AppendUint64(b, part)
		}
	}
	if flags&hasSince != 0 {
		b = binary.AppendUvarint(b, uint64(since.Unix())) // #nosec G115 -- it is above 0
	}
	if flags&hasRest != 0 {
		b = append(b, in.left...)
	}
	return b, true
}

// ReportText is the JSON of a report that was packed, or is JSON. What is neither is empty. The
// caller must not change it.
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
	for i, part := range kept[3:head] {
		b = hex.AppendEncode(b, []byte{part})
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
		at := time.Unix(int64(n), 0).UTC() // #nosec G115 -- no report is of then
		b, left = append(at.AppendFormat(append(b, `,"since":"`...), time.RFC3339), '"'), left[size:]
	}
	if health != "" {
		b = append(append(append(b, `,"health":"`...), health...), '"')
	}
	if flags&hasRest != 0 {
		return append(b, left...)
	}
	return append(b, '}')
}

// packUID are the bytes of a UID as Kubernetes makes them.
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

// scanner takes apart the beginning of a report's JSON.
type scanner struct {
	left []byte
	// ok says that all fields were there that must be.
	ok bool
}

// text is the text after a prefix, up to the next quote. There must be one.
func (s *scanner) text(prefix string) []byte {
	before := len(s.left)
	v := s.option(prefix)
	s.ok = s.ok && len(s.left) < before
	return v
}

// option is text where there may be none.
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

// number is the digits after a prefix, if it is there.
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
