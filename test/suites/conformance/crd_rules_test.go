package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

func crdRules(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"min":{"type":"integer"},"max":{"type":"integer"},"name":{"type":"string","maxLength":63},"when":{"type":"string","format":"date-time"},
"items":{"type":"array","maxItems":10,"items":{"type":"object","properties":{"n":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.n > 0","messageExpression":"'n is ' + (self.n == 0 ? 'zero' : 'below')"}]}},
"quantity":{"x-kubernetes-int-or-string":true,"x-kubernetes-validations":[{"rule":"isQuantity(string(self))"}]}},
"x-kubernetes-validations":[{"rule":"!has(self.min) || !has(self.max) || self.min <= self.max","message":"min is above max","reason":"FieldValueInvalid","fieldPath":".min"},
{"rule":"!has(self.name) || self.name.startsWith('a')","messageExpression":"'name ' + self.name + ' does not begin with a'","message":"begin with a","reason":"FieldValueForbidden","fieldPath":".name"},
{"rule":"!has(self.items) || self.items.all(i, i.n < 10) ","messageExpression":"string(self.items[99].n)","message":"the message that is left"},
{"rule":"!has(self.max) || self.max != 13","reason":"FieldValueRequired"},{"rule":"!has(self.max) || 100 / self.max > 1","reason":"FieldValueDuplicate"}]}`), ""))
	for _, spec := range []string{`{}`, `{"min":2,"max":1}`, `{"min":1,"max":2,"name":"b"}`, `{"items":[{"n":1},{"n":0}]}`, `{"items":[{"n":11}]}`, `{"max":13}`, `{"max":0}`, `{"max":70}`, `{"quantity":"1Gi"}`, `{"quantity":"x"}`, `{"quantity":7}`, `{"min":3,"max":"x"}`} {
		s.say("%s", spec)
		k.post(k.path()+"?dryRun=All", k.object("a", `"spec":`+spec))
	}
	for i, rule := range []string{`"rule":"self.x"`, `"rule":""`, `"rule":"true","message":"a\nb"`, `"rule":"self.a ==","message":"m"`, `"rule":"'x'"`, `"rule":"self.a > 0","messageExpression":"1"`, `"rule":"self.a > 0","messageExpression":"self.none"`, `"rule":"self.a > 0","reason":"Whatever"`,
		`"rule":"self.a > 0","fieldPath":".none"`, `"rule":"self.a > 0","fieldPath":"a"`, `"rule":"self.a > 0","fieldPath":".a"`, `"rule":"self.a > oldSelf.a","optionalOldSelf":false`, `"rule":"self.a > 0","optionalOldSelf":true`, `"rule":"oldSelf.orValue(self).a > 0","optionalOldSelf":true`} {
		s.say("rule %d %s", i, rule)
		other := s.kind()
		other.plural = fmt.Sprintf("things%d", i)
		k.try(http.MethodPost, crdsPath+"?dryRun=All", other.named(fmt.Sprintf(`"plural":%q,"kind":"Thing%d"`, other.plural, i),
			crdVersion("v1", true, `{"type":"object","properties":{"a":{"type":"integer"}},"x-kubernetes-validations":[{`+rule+`}]}`, "")))
	}
}

func crdOldSelf(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{
"fixed":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"fixed is fixed"}]},
"grows":{"type":"integer","x-kubernetes-validations":[{"rule":"!oldSelf.hasValue() || self >= oldSelf.value()","optionalOldSelf":true,"message":"grows only"}]},
"listmap":{"type":"array","maxItems":5,"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"v only grows"}]}}}},
"map":{"type":"object","maxProperties":5,"additionalProperties":{"type":"integer","x-kubernetes-validations":[{"rule":"self >= oldSelf","message":"values only grow"}]}}},
"x-kubernetes-validations":[{"rule":"has(self.fixed) == has(oldSelf.fixed)","message":"fixed is required once set"}]}`), `"subresources":{"status":{}}`))
	k.post(k.path(), k.object("a", `"spec":{"fixed":"x","grows":5,"listmap":[{"k":"a","v":5},{"k":"b","v":1}],"map":{"a":5}}`))
	for _, patch := range []string{`{"fixed":"y"}`, `{"fixed":null}`, `{"grows":4}`, `{"grows":6}`, `{"listmap":[{"k":"b","v":1},{"k":"a","v":4}]}`, `{"listmap":[{"k":"b","v":2},{"k":"a","v":5}]}`, `{"listmap":[{"k":"c","v":0}]}`, `{"map":{"a":4}}`, `{"map":{"b":0}}`} {
		s.say("%s", patch)
		k.patch(typeMerge, k.path("a")+"?dryRun=All", `{"spec":`+patch+`}`)
	}
	k.patch(typeMerge, k.path("a", "status"), `{"status":{"x":1}}`)
	k.apply(k.path("a")+"?fieldManager=m&force=true", k.object("a", `"spec":{"fixed":"z"}`))
}

// Kubernetes bounds what rules may cost twice: when they are written, by what
// the schema allows, and when they are run (crdSpending).
func crdBudgets(s *side) {
	k := s.kind()
	const rule = `"x-kubernetes-validations":[{"rule":"self.all(x, self.all(y, x == y || x != y))"}]`
	for _, schema := range []string{
		`{"type":"object","properties":{"spec":{"type":"array","items":{"type":"string"},` + rule + `}}}`,
		`{"type":"object","properties":{"spec":{"type":"array","items":{"type":"string","maxLength":10},"maxItems":10,` + rule + `}}}`,
		`{"type":"object","properties":{"spec":{"type":"array","items":{"type":"array","items":{"type":"string","x-kubernetes-validations":[{"rule":"self.contains('x')"}]}}}}}`,
		`{"type":"object","properties":{"spec":{"type":"object","additionalProperties":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"},"x-kubernetes-validations":[{"rule":"self.exists(x, x == 'a')","messageExpression":"self.map(x, x + x).join('')"}]}}}}}}}`,
		`{"type":"object","properties":{"spec":{"type":"array","maxItems":100,"items":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":5},` + rule + `},"x-kubernetes-validations":[` + strings.TrimSuffix(strings.Repeat(`{"rule":"self.all(x, x.all(y, y != 'a'))"},`, 9), ",") + `]}}}`,
	} {
		k.try(http.MethodPost, crdsPath+"?dryRun=All", k.crd(crdVersion("v1", true, schema, "")))
	}
}

// crdSpending writes objects whose rules cost more than they may when they are
// run, one of them alone or all together, although the schemas bound them well
// enough. To look for much in a long string costs little time.
func crdSpending(s *side) {
	const (
		call   = "no further validation rules will be run due to call cost exceeds limit"
		budget = "validation failed due to running out of cost budget, no further validation rules will be run"
	)
	rules := func(n int) string {
		rule := fmt.Sprintf(`{"rule":"!self.contains('%s')"}`, strings.Repeat("b", 1000))
		return `"x-kubernetes-validations":[` + strings.TrimSuffix(strings.Repeat(rule+",", n), ",") + `]`
	}
	k := s.kind()
	k.define(crdVersion("v1", true, `{"type":"object","properties":{
"call":{"type":"string","maxLength":150000,`+rules(1)+`},"sum":{"type":"string","maxLength":90000,`+rules(12)+`},
"list":{"type":"array","maxItems":10,"items":{"type":"string","maxLength":24000,`+rules(5)+`}}}}`, ""))
	long := func(n int) string { return `"` + strings.Repeat("a", n) + `"` }
	list := func(n int) string { return `[` + strings.TrimSuffix(strings.Repeat(long(24000)+",", n), ",") + `]` }
	for _, spend := range []struct{ what, more, message string }{
		{"a cheap call", `"call":` + long(90000), ""},
		{"an expensive call", `"call":` + long(140000), call},
		{"cheap rules", `"sum":` + long(9000), ""},
		{"many rules", `"sum":` + long(90000), budget},
		{"some items", `"list":` + list(6), ""},
		{"all items", `"list":` + list(10), budget},
	} {
		s.say("%s", spend.what)
		for _, method := range []string{http.MethodPost, http.MethodPatch} {
			path, headers := k.path()+"?dryRun=All", []string(nil)
			if method == http.MethodPatch {
				path, headers = k.path("a")+"?dryRun=All&fieldManager=m", []string{applying}
			}
			a := k.try(method, path, k.object("a", spend.more), headers...)
			if message := a.text("message"); !strings.Contains(message, spend.message) || (spend.message == "") != (a.code < http.StatusBadRequest) {
				s.t.Errorf("%s: %s of %s: %d %s", s.url, method, spend.what, a.code, message)
			}
		}
	}
}

// What was valid when it was written may stay as it is, but not be written anew.
func crdRatcheting(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"size":{"type":"integer"},"colour":{"type":"string"},"list":{"type":"array","items":{"type":"string"}},"listmap":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer"}}}}}}`), `"subresources":{"status":{}}`))
	s.quietly(http.MethodPost, k.path(), k.object("a", `"spec":{"size":50,"colour":"green","list":["a","a"],"listmap":[{"k":"a","v":50},{"k":"b","v":1}]}`))
	k.redefine(k.object("x", `"spec":{"size":50}`), http.StatusUnprocessableEntity, crdVersion("v1", true, withSpec(`{"type":"object","required":["must"],"properties":{"must":{"type":"string"},"size":{"type":"integer","maximum":10},"colour":{"type":"string","enum":["red"]},"list":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
"listmap":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"maxItems":9,"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer","maximum":10}},"x-kubernetes-validations":[{"rule":"!has(self.v) || self.v < 20"}]}}},"x-kubernetes-validations":[{"rule":"!has(self.size) || self.size < 20","message":"small ones only"}]}`), `"subresources":{"status":{}}`))
	for _, patch := range []string{`{"metadata":{"labels":{"x":"y"}}}`, `{"spec":{"colour":"yellow"}}`, `{"spec":{"colour":"red"}}`, `{"spec":{"size":51}}`, `{"spec":{"must":"x"}}`, `{"spec":{"must":"x","size":5}}`, `{"spec":{"list":["b"]}}`, `{"spec":{"must":"x","size":1,"listmap":[{"k":"b","v":2},{"k":"a","v":50}]}}`, `{"spec":{"must":"x","size":1,"listmap":[{"k":"b","v":20},{"k":"a","v":50}]}}`} {
		s.say("%s", patch)
		k.patch(typeMerge, k.path("a")+"?dryRun=All", patch)
	}
	k.patch(typeMerge, k.path("a", "status"), `{"status":{"x":1}}`)
	k.post(k.path()+"?dryRun=All", k.object("b", `"spec":{"size":50,"colour":"green","list":["a","a"]}`))
}

func crdMerging(s *side) {
	k := s.kind()
	k.define(crdVersion("v1", true, withSpec(`{"type":"object","properties":{"plain":{"type":"array","items":{"type":"string"}},"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"atomic":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}},
"listmap":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"integer"},"w":{"type":"integer"}}}},
"map":{"type":"object","additionalProperties":{"type":"string"}},"block":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}`), `"subresources":{"status":{}}`))
	apply := func(manager, more, spec string) {
		s.say("%s%s %s", manager, more, spec)
		k.apply(k.path("a")+"?fieldManager="+manager+more, k.object("a", `"spec":`+spec))
	}
	apply("one", "", `{"plain":["a"],"set":["a"],"atomic":["a"],"listmap":[{"k":"a","v":1}],"map":{"a":"1"},"block":{"a":1},"free":{"a":{"b":1},"l":[1]}}`)
	apply("two", "", `{"set":["b","a"],"listmap":[{"k":"b","v":2},{"k":"a","w":3}],"map":{"b":"2"},"free":{"a":{"c":1}}}`)
	apply("two", "", `{"plain":["b"],"atomic":["b"],"block":{"b":1},"free":{"l":[2]}}`)
	apply("two", "", `{"listmap":[{"k":"a","v":9}]}`)
	apply("two", "&force=true", `{"plain":["b"],"block":{"b":1},"listmap":[{"k":"a","v":9}]}`)
	apply("one", "", `{"set":["c"]}`)
	apply("two", "", `{"set":["d","d"]}`)
	apply("two", "", `{"listmap":[{"v":9}]}`)
	apply("two", "", `{"unknown":1}`)
	apply("two", "", `{"map":{"b":2}}`)
	k.apply(k.path("a", "status")+"?fieldManager=three", k.object("a", `"status":{"x":1}`))
	k.patch(typeMerge, k.path("a"), `{"spec":{"set":["z"]}}`)
}
