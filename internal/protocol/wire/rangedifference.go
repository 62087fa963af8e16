package wire

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// AppendRangeDifference appends the line of a frame with a RangeDifference. The result equals that of an Encoder, in a
// quarter of the time (BenchmarkRangeDifference). With many locations that compare, parts with many small
// leaves take much of the hub's CPU time.
func AppendRangeDifference(line []byte, p *RangeDifference) []byte {
	m := members{line: append(line, `{"part":{`...)}
	m.text("from", p.From)
	m.text("to", p.To)
	if len(p.Split) > 0 {
		m.name("split")
		m.line = appendList(m.line, p.Split, appendSpan)
	}
	if len(p.Leaves) > 0 {
		m.name("leaves")
		m.line = appendList(m.line, p.Leaves, appendLeaf)
	}
	return append(m.line, "}}\n"...)
}

// members appends the members of an object to a line.
type members struct {
	line []byte
	some bool
}

// name appends the name of a member.
func (m *members) name(name string) {
	if m.some {
		m.line = append(m.line, ',')
	}
	m.some = true
	m.line = append(append(append(m.line, '"'), name...), `":`...)
}

// text appends a member, unless its value is empty.
func (m *members) text(name, value string) {
	if value != "" {
		m.name(name)
		m.line = appendText(m.line, value)
	}
}

// sum appends a sum; the zero sum is empty.
func (m *members) sum(sum Sum) {
	m.name("sum")
	m.line = append(m.line, '"')
	if !sum.IsZero() {
		m.line = sum.appendTo(m.line)
	}
	m.line = append(m.line, '"')
}

func appendSpan(line []byte, s *Span) []byte {
	m := members{line: append(line, '{')}
	m.text("from", s.From)
	m.text("to", s.To)
	m.sum(s.Sum)
	m.name("count")
	return append(strconv.AppendInt(m.line, int64(s.Count), 10), '}')
}

func appendLeaf(line []byte, l *Leaf) []byte {
	m := members{line: append(line, '{')}
	m.name("key")
	m.line = appendText(m.line, l.Key)
	m.sum(l.Sum)
	return append(m.line, '}')
}

func appendList[T any](line []byte, all []T, appendOne func([]byte, *T) []byte) []byte {
	line = append(line, '[')
	for i := range all {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendOne(line, &all[i])
	}
	return append(line, ']')
}

// appendText appends a quoted string. Names, of which keys consist, need no escapes.
func appendText(line []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return gjson.AppendJSONString(line, text)
		}
	}
	return append(append(append(line, '"'), text...), '"')
}
