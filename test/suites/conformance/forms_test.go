package conformance

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const (
	asPartial     = "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	asPartialList = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	asTable       = "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"
)

func partialMetadata(s *side) {
	cms := s.in("configmaps")
	s.create("a", "x=y")
	s.create("b")
	s.get(cms+"/a", asPartial)
	s.get(cms, asPartialList)
	s.get(cms+"?limit=1", asPartialList)
	s.get(cms, asPartial)
	s.get(cms+"/a", asPartialList)
	s.get(cms+"/none", asPartial)
	s.post(cms, configMap("c"), asPartial)
	s.put(cms+"/c", configMap("c", "x=y"), asPartial)
	s.patch(typeMerge, cms+"/c", `{"metadata":{"labels":null}}`, asPartial)
	s.watch(cms+"?watch=true", asPartial).take(3)
	s.get(cms+"/a", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1")
	s.get(cms+"/a", "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2")
}

func tables(s *side) {
	cms := s.in("configmaps")
	s.create("a", "x=y")
	s.create("b")
	for _, include := range []string{"", "?includeObject=None", "?includeObject=Metadata", "?includeObject=Object"} {
		s.get(cms+include, asTable)
		s.get(cms+"/a"+include, asTable)
	}
	s.get(cms+"?includeObject=Other", asTable)
	s.get(cms+"?limit=1", asTable)
	s.get(cms+"?labelSelector=none", asTable)
	s.get(cms+"/none", asTable)
	s.get(cms+"/a", asTable+",application/json")
	s.get(cms+"/a", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1")
	s.get(cms+"/a", "Accept: application/json;as=Table;g=meta.k8s.io;v=v9")
	s.get(cms+"/a", "Accept: application/json;as=Table;g=meta.k8s.io;v=v9,application/json")
	s.get(cms+"/a", "Accept: application/json;as=Chair;g=meta.k8s.io;v=v1")
	s.get(cms+"/a", "Accept: application/json;as=Table;g=other;v=v1")
	s.post(cms, configMap("c"), asTable)
}

// decoded shows an answer in protobuf as the JSON that it stands for.
func (s *side) decoded(a answer, into runtime.Object) {
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	obj, gvk, err := serializer.Decode(a.body, nil, into)
	if err != nil {
		s.say("  %d: no protobuf: %v", a.code, err)
		return
	}
	b, err := json.Marshal(obj)
	if err == nil {
		a.object = nil
		err = json.Unmarshal(b, &a.object)
	}
	s.say("  as %v %v", gvk, err)
	s.log.answer(a)
}

func encoded(obj runtime.Object) string {
	var b bytes.Buffer
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	if err := serializer.Encode(obj, &b); err != nil {
		panic(err) // objects of the test's own
	}
	return b.String()
}

func protobufForms(s *side) {
	cms := s.in("configmaps")
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "p"}, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0, 1}}}
	const in, out = "Content-Type: " + typeProtobuf, "Accept: " + typeProtobuf
	request := func(what, method, path, body string, into runtime.Object, headers ...string) {
		a, err := s.do(method, path, body, headers...)
		s.say("%s: %v", what, err)
		s.decoded(a, into)
	}
	request("create", "POST", cms, encoded(object), &corev1.ConfigMap{}, in, out)
	s.get(cms + "/p")
	object.Data["k"] = "w"
	s.put(cms+"/p", encoded(object), in)
	request("get", "GET", cms+"/p", "", &corev1.ConfigMap{}, out)
	request("list", "GET", cms, "", &corev1.ConfigMapList{}, out)
	request("a page", "GET", cms+"?limit=1", "", &corev1.ConfigMapList{}, out+",application/json")
	request("not found", "GET", cms+"/none", "", &metav1.Status{}, out)
	request("metadata", "GET", cms+"/p", "", &metav1.PartialObjectMetadata{}, out+";as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	request("metadata list", "GET", cms, "", &metav1.PartialObjectMetadataList{}, out+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	request("json in", "POST", cms, configMap("q"), &corev1.ConfigMap{}, out)
	request("merge patch", "PATCH", cms+"/q", `{"data":{"k":"x"}}`, &corev1.ConfigMap{}, out, "Content-Type: "+typeMerge)
	request("delete", "DELETE", cms+"/q", encoded(&metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}), &metav1.Status{}, in, out)
	a, err := s.do("GET", cms+"?watch=true&timeoutSeconds=10", "", out+";stream=watch")
	s.say("watch: %v %d %s, %v", err, a.code, a.header.Get("Content-Type"), len(a.body) > 100)
	wrong := object.DeepCopy()
	wrong.Kind = "Secret"
	s.post(cms, encoded(wrong), in)
}

func customResourcesHaveNoProtobuf(s *side) {
	group := s.ns + ".example.org"
	s.define(group, `{"type":"object","x-kubernetes-preserve-unknown-fields":true}`)
	path := s.inGroup(group+"/v1", "widgets")
	widget := `{"apiVersion":"` + group + `/v1","kind":"Widget","metadata":{"name":"w"}}`
	s.post(path, widget)
	s.get(path+"/w", "Accept: "+typeProtobuf)
	s.get(path+"/w", "Accept: "+typeProtobuf+",application/json")
	s.get(path, "Accept: "+typeProtobuf+",application/json")
	a, err := s.do("GET", path, "", "Accept: "+typeProtobuf+";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
	s.say("metadata: %v", err)
	s.decoded(a, &metav1.PartialObjectMetadataList{})
	s.post(path, "k8s\x00x", "Content-Type: "+typeProtobuf)
	s.put(path+"/w", widget, "Content-Type: text/plain")
	s.patch(typeStrategic, path+"/w", `{}`)
	s.post(path, widget, "Content-Type: application/cbor")
	s.get(path+"/w", "Accept: application/yaml")
	s.get(path+"/w", "Accept: application/cbor")
}

func mediaTypes(s *side) {
	cms := s.in("configmaps")
	s.create("a")
	outcome := func(what string, a answer, err error) {
		s.say("%s: %v %d %s %s", what, err, a.code, a.text("reason"), a.header.Get("Content-Type"))
	}
	for _, accept := range []string{"*/*", "application/*", "text/plain", "text/html", "application/json;q=0.5,application/yaml", "application/yaml", "application/xml, */*", "application/json;charset=utf-8", "", "nonsense", "application/cbor", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"} {
		a, err := s.do("GET", cms+"/a", "", "Accept: "+accept)
		outcome("accept "+accept, a, err)
	}
	for _, contentType := range []string{"application/json; charset=utf-8", "text/plain", "application/xml", "nonsense/", "application/yaml", "", "application/x-www-form-urlencoded", "application/json-patch+json", "APPLICATION/JSON"} {
		a, err := s.do("POST", cms, configMap("c"+s.number()), "Content-Type: "+contentType)
		outcome("post "+contentType, a, err)
	}
	for _, contentType := range []string{"application/json", "text/plain", "application/merge-patch+json; charset=utf-8", "application/patch", "", "application/apply-patch+cbor", "application/apply-patch+json"} {
		a, err := s.do("PATCH", cms+"/a", `{}`, "Content-Type: "+contentType)
		outcome("patch "+contentType, a, err)
	}
	s.get(cms+"/a", "Accept: application/yaml")
	s.post(cms, "name: x", "Content-Type: text/plain")
	s.post(cms, "", "Content-Type: "+typeJSON)
	s.post(cms, "")
	s.put(cms+"/a", "")
}

func compression(s *side) {
	big := strings.Repeat("x", 200<<10)
	s.quietly("POST", s.in("configmaps"), `{"metadata":{"name":"big"},"data":{"k":"`+big+`"}}`)
	s.create("small")
	for _, path := range []string{s.in("configmaps", "big"), s.in("configmaps", "small"), s.in("configmaps")} {
		for _, encoding := range []string{"gzip", "deflate, gzip;q=1.0", "gzip;q=0", "identity", "br", ""} {
			a, err := s.do("GET", path, "", "Accept-Encoding: "+encoding)
			body := a.body
			if a.header.Get("Content-Encoding") == "gzip" && err == nil {
				r, zerr := gzip.NewReader(bytes.NewReader(a.body))
				if err = zerr; err == nil {
					body, err = io.ReadAll(r)
				}
			}
			s.say("%s %q: %v %d %s, %s, JSON %v", path, encoding, err, a.code, headerOf(a.header, "Content-Encoding"), headerOf(a.header, "Vary"), json.Valid(body))
		}
	}
	s.post(s.in("configmaps"), configMap("z"), "Content-Encoding: gzip")
}

func pretty(s *side) {
	s.create("a")
	for _, path := range []string{s.in("configmaps", "a"), s.in("configmaps", "none"), s.in("configmaps"), "/version", "/api/v1"} {
		for _, c := range [][2]string{{"?pretty=true", ""}, {"?pretty=false", "curl/8"}, {"", "curl/8"}, {"", "Mozilla/5.0"}, {"", "Wget/1"}, {"", "kubectl/1"}, {"?pretty=1", ""}, {"?pretty", ""}} {
			a, err := s.do("GET", path+c[0], "", "User-Agent: "+c[1])
			s.say("%s%s for %q: %v %d, pretty %v", path, c[0], c[1], err, a.code, bytes.Count(a.body, []byte("\n")) > 2)
		}
	}
	a, _ := s.do("GET", s.in("configmaps", "a")+"?pretty=true", "")
	var order []string
	for line := range strings.Lines(string(a.body)) {
		if !strings.Contains(line, "resourceVersion") {
			order = append(order, strings.TrimSpace(line))
		}
	}
	slices.Sort(order)
	for _, line := range order {
		s.say("%s", strings.TrimRight(line, ","))
	}
}
