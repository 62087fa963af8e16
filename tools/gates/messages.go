package main

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// A message is a text of a program that people read.
type message struct {
	line int // of the file, from 1
	text string
}

// messages returns the constant strings of a file that have a space, apart from the tags of
// fields. String literals that + joins are one message.
func messages(s source) []message {
	var found []message
	done := map[*ast.BasicLit]bool{}
	add := func(joined []*ast.BasicLit) {
		if len(joined) == 0 || done[joined[0]] {
			return
		}
		for _, literal := range joined {
			done[literal] = true
		}
		if m := s.message(joined); strings.Contains(m.text, " ") {
			found = append(found, m)
		}
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			done[x.Tag] = true
		case *ast.BinaryExpr:
			for _, joined := range joinedLiterals(operands(x)) {
				add(joined)
			}
		case *ast.BasicLit:
			if x.Kind == token.STRING {
				add([]*ast.BasicLit{x})
			}
		}
		return true
	})
	return found
}

// operands returns the operands of a sum, from left to right.
func operands(e ast.Expr) []ast.Expr {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return operands(x.X)
	case *ast.BinaryExpr:
		if x.Op == token.ADD {
			return append(operands(x.X), operands(x.Y)...)
		}
	}
	return []ast.Expr{e}
}

// joinedLiterals returns the string literals in a list, in groups: another operand ends a group.
func joinedLiterals(all []ast.Expr) [][]*ast.BasicLit {
	groups := [][]*ast.BasicLit{nil}
	for _, e := range all {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			last := len(groups) - 1
			groups[last] = append(groups[last], literal)
			continue
		}
		groups = append(groups, nil)
	}
	return groups
}

// message joins literals. In the text, each line break of the source is a line break or a
// lineJoint, and nothing else is.
func (s source) message(joined []*ast.BasicLit) message {
	var text strings.Builder
	line := s.line(joined[0].Pos())
	for _, literal := range joined {
		text.WriteString(strings.Repeat(string(lineJoint), s.line(literal.Pos())-line))
		line = s.line(literal.End())
		value, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue // the parser has checked it
		}
		if strings.HasPrefix(literal.Value, `"`) {
			value = strings.ReplaceAll(value, "\n", "\v")
		}
		text.WriteString(value)
	}
	return message{s.line(joined[0].Pos()), text.String()}
}
