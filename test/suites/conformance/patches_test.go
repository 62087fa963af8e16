package conformance

import "strings"

func jsonPatches(s *side) {
	s.quietly("POST", s.in("configmaps"), `{"metadata":{"name":"a","labels":{"x":"y"},"finalizers":["example.org/a","example.org/b"]},"data":{"k":"v","a.b":"c","m_n":"o"}}`)
	for _, patch := range []string{
		`[{"op":"test","path":"/data/k","value":"v"},{"op":"replace","path":"/data/k","value":"w"}]`, `[{"op":"test","path":"/data/k","value":"v"},{"op":"remove","path":"/data"}]`,
		`[{"op":"add","path":"/data/a.b","value":"d"},{"op":"remove","path":"/data/m_n"},{"op":"add","path":"/metadata/annotations","value":{"a/b":"1"}},{"op":"replace","path":"/metadata/annotations/a~1b","value":"2"}]`, `[{"op":"move","from":"/data/k","path":"/data/l"}]`, `[{"op":"copy","from":"/data/l","path":"/data/c"}]`,
		`[{"op":"add","path":"/metadata/finalizers/-","value":"example.org/c"}]`, `[{"op":"remove","path":"/metadata/finalizers/9"}]`, `[{"op":"remove","path":"/metadata/finalizers/-1"}]`, `[{"op":"remove","path":"/nothing"}]`, `[{"op":"remove","path":"/data/nothing"}]`,
		`[{"op":"replace","path":"/data/nothing","value":"x"}]`, `[{"op":"add","path":"/no/such","value":"x"}]`, `[{"op":"add","path":"data/k","value":"x"}]`, `[{"op":"frobnicate","path":"/data/k"}]`, `[{"op":"add","path":"/data/k"}]`, `[{"path":"/data/k","value":"x"}]`,
		`[{"op":"add","value":"x"}]`, `[{"op":"add","path":"/data/k","value":5}]`, `[{"op":"replace","path":"","value":{}}]`, `[{"op":"replace","path":"/metadata/name","value":"b"}]`, `[]`, `{}`, `null`, `5`, `"x"`, `[5]`, `[null]`, `[`, `x`, ``,
		`[{"op":"move","from":"/data","path":"/data/x"}]`, `[{"op":"test","path":"/data/nothing","value":null}]`, `[{"op":"add","path":"/data/k","value":null}]`, `[{"op":"remove","path":"/metadata"}]`, `[{"op":"remove","path":"/kind"}]`, `[{"op":"replace","path":"/apiVersion","value":"v9"}]`,
	} {
		s.say("patch %s", patch)
		s.patch(typeJSONPatch, s.in("configmaps", "a"), patch)
	}
	s.patch(typeJSONPatch, s.in("configmaps", "none"), `[{"op":"add","path":"/data","value":{}}]`)
	ops := strings.Repeat(`{"op":"add","path":"/data/k","value":"x"},`, 10001)
	s.patch(typeJSONPatch, s.in("configmaps", "a"), "["+strings.TrimSuffix(ops, ",")+"]")
	ops = strings.Repeat(`{"op":"copy","from":"/data","path":"/data/x"},`, 40)
	s.patch(typeJSONPatch, s.in("configmaps", "a"), "["+strings.TrimSuffix(ops, ",")+"]")
}

func mergePatches(s *side) {
	s.quietly("POST", s.in("configmaps"), `{"metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v","l":"w"}}`)
	for _, patch := range []string{`{"data":{"k":null}}`, `{"data":null}`, `{"data":{"n":"m"},"metadata":{"labels":{"x":null,"z":"1"}}}`, `{}`, `null`, `[]`, `5`, `"x"`, `{"data":5}`, `{"data":{"k":5}}`, `{"data":[]}`, `{`, `x`, ``,
		`{"metadata":null}`, `{"metadata":5}`, `{"kind":null}`, `{"metadata":{"name":null}}`, `{"binaryData":{"k":"x"}}`, `{"data":{"k":"v"}} trailing`, `{"data":{"k":"v"}}{}`} {
		s.say("patch %s", patch)
		s.patch(typeMerge, s.in("configmaps", "a"), patch)
	}
	s.patch(typeMerge, s.in("configmaps", "none"), `{}`)
}

func strategicPatches(s *side) {
	s.quietly("POST", s.in("serviceaccounts"), `{"metadata":{"name":"a","finalizers":["example.org/a"],"ownerReferences":[{"apiVersion":"v1","kind":"A","name":"o","uid":"u"}]},"secrets":[{"name":"one"},{"name":"two"}],"imagePullSecrets":[{"name":"p"}]}`)
	for _, patch := range []string{
		`{"secrets":[{"name":"three"}]}`, `{"secrets":[{"name":"one","$patch":"delete"}]}`, `{"secrets":[{"$patch":"replace"},{"name":"only"}]}`, `{"$setElementOrder/secrets":[{"name":"b"},{"name":"only"}],"secrets":[{"name":"b"}]}`, `{"imagePullSecrets":[{"name":"q"}]}`,
		`{"metadata":{"finalizers":["example.org/b"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.org/a"]}}`, `{"metadata":{"ownerReferences":[{"uid":"u","$patch":"delete"}]}}`, `{"metadata":{"labels":{"$patch":"replace","x":"y"}}}`,
		`{"metadata":{"$retainKeys":["name"],"labels":{"z":"1"}}}`, `{"secrets":[{"nokey":"x"}]}`, `{"secrets":5}`, `{"secrets":[5]}`, `{"$patch":"nonsense"}`, `{"secrets":[{"name":"one","$patch":"nonsense"}]}`, `{"$setElementOrder/secrets":[{"name":"b"}],"secrets":[{"name":"c"}]}`,
		`{"$deleteFromPrimitiveList/secrets":[1]}`, `null`, `[]`, `5`, `{`, ``, `{"secrets":null}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":5}}`, `{"metadata":{"$setElementOrder/finalizers":5}}`, `{"$patch":"delete"}`, `{"$patch":"replace","metadata":{"name":"a"}}`, `{"$retainKeys":5}`,
	} {
		s.say("patch %s", patch)
		s.patch(typeStrategic, s.in("serviceaccounts", "a"), patch)
	}
	s.patch(typeStrategic, s.in("serviceaccounts", "none"), `{}`)
}
