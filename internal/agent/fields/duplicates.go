package fields

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// An API server accepts a list of a Pod with two elements of one key when the object is created, and refuses it
// when the object is applied. So an element is removed where the Pod is the same without it.

// keyed lists the fields of Pods for which this is so, each with a function that returns the elements that may
// be removed.
var keyed = map[string]func(list []gjson.Result) (surplus map[int]bool){
	"env":              overwritten,
	"imagePullSecrets": repeated,
	"ports":            repeated,
}

// WithoutDuplicates returns an object of a built-in kind without the elements of lists that have no effect, since
// another element has their key. Elements of one key that differ in their effect stay.
func WithoutDuplicates(object []byte) ([]byte, error) {
	hasSome := false
	for name := range keyed {
		hasSome = hasSome || bytes.Contains(object, []byte(strconv.Quote(name)))
	}
	if !hasSome {
		return object, nil
	}
	var err error
	shorter := map[string]string{}
	shorten(gjson.ParseBytes(object), "", 0, shorter)
	for path, list := range shorter {
		if object, err = sjson.SetRawBytes(object, path, []byte(list)); err != nil {
			return nil, fmt.Errorf("%w: leave out a duplicate in %s: %w", ErrMalformed, path, err)
		}
	}
	return object, nil
}

// shorten finds, by path, the lists in a value that are shorter without duplicates.
func shorten(v gjson.Result, path string, depth int, shorter map[string]string) {
	if !v.IsObject() && !v.IsArray() || depth > maxDepth {
		return
	}
	i := 0
	v.ForEach(func(name, in gjson.Result) bool {
		step := strconv.Itoa(i)
		if v.IsObject() {
			step = gjson.Escape(name.Str)
		}
		i++
		inside := strings.TrimPrefix(path+"."+step, ".")
		if find := keyed[name.Str]; find != nil && in.IsArray() {
			if list, is := kept(in, find); is {
				shorter[inside] = list
			}
			return true
		}
		if depth > 0 || name.Str != "metadata" && name.Str != "status" {
			shorten(in, inside, depth+1, shorter)
		}
		return true
	})
}

// kept returns a list without some elements; false: the list has none of them.
func kept(list gjson.Result, find func([]gjson.Result) map[int]bool) (text string, is bool) {
	all := list.Array()
	surplus := find(all)
	if len(surplus) == 0 {
		return "", false
	}
	var rest []string
	for i := range all {
		if !surplus[i] {
			rest = append(rest, all[i].Raw)
		}
	}
	return "[" + strings.Join(rest, ",") + "]", true
}

// repeated returns the elements that equal an earlier element.
func repeated(list []gjson.Result) (surplus map[int]bool) {
	surplus, known := map[int]bool{}, map[string]bool{}
	for i := range list {
		if known[list[i].Raw] {
			surplus[i] = true
		}
		known[list[i].Raw] = true
	}
	return surplus
}

// overwritten returns the environment variables that a later variable of the same name replaces. A variable that
// a variable in between refers to is not among them.
func overwritten(list []gjson.Result) (surplus map[int]bool) {
	surplus, last := map[int]bool{}, map[string]int{}
	for i := range list {
		last[list[i].Get("name").Str] = i
	}
	for i := range list {
		name := list[i].Get("name").Str
		next := last[name]
		if next == i || name == "" {
			continue
		}
		used := false
		for _, other := range list[i+1 : next+1] {
			used = used || strings.Contains(other.Get("value").Str, "$("+name+")")
		}
		if !used {
			surplus[i] = true
		}
	}
	return surplus
}
