package key

import (
	"strings"
	"testing"
)

var objects = map[string]Object{
	"o/a/core/configmaps/n/x":         {"a", Identity{NewResource("", "configmaps"), "n", "x"}},
	"o/a/core/namespaces/n":           {"a", Identity{Namespaces, "", "n"}},
	"o/a/apps/deployments/n/a.b-c":    {"a", Identity{NewResource("apps", "deployments"), "n", "a.b-c"}},
	"o/root/orrery.dev/locations/l":   {Root, Identity{Locations, "", "l"}},
	"o/root/orrery.dev/spaces/l":      {Root, Identity{Spaces, "", "l"}},
	"o/l/orrery.dev/locations/l":      {"l", Identity{Locations, "", "l"}},
	"o/a/g/system:roles/system:admin": {"a", Identity{Resource{"g", "system:roles"}, "", "system:admin"}},
}

func TestObjects(t *testing.T) {
	for k, o := range objects {
		if got := o.Key(); got != k {
			t.Errorf("key of %+v is %q, want %q", o, got, k)
		}
		if got, err := ParseObject(k); err != nil || got != o {
			t.Errorf("%q is %+v, %v", k, got, err)
		}
		if got, err := ParsePath(o.Path()); err != nil || got != o {
			t.Errorf("path %q is %+v, %v", o.Path(), got, err)
		}
		s, r, rest, ok := Split(k)
		if namespace, name := SplitName(rest); !ok || s != o.Space || r != o.Resource || namespace != o.Namespace || name != o.Name {
			t.Errorf("%q splits into %q, %v, %q, %v", k, s, r, rest, ok)
		}
		if got := OfPath(o.Path()); got != k {
			t.Errorf("key of path %q is %q, want %q", o.Path(), got, k)
		}
		if got, err := ParseIn(o.Space, o.Identity.String()); err != nil || got != o || PathPrefix(o.Space)+o.Identity.String() != o.Path() {
			t.Errorf("%q in space %q is %+v, %v", o.Identity, o.Space, got, err)
		}
		if got, ok := ResourceOf(k); !ok || got != o.Resource.String() {
			t.Errorf("resource of %q is %q, %v", k, got, ok)
		}
		report := Report{Location: "l", Origin: Placed, Object: o}
		if p := SpaceReports("l", o.Space); !strings.HasPrefix(report.Key(), p) || !strings.HasPrefix(p, LocationReports("l")) {
			t.Errorf("%q is not in %q", report.Key(), p)
		}
		for _, k := range []string{k, report.Key()} {
			if r, ok := SubjectOf(k); !ok || r != o.Resource {
				t.Errorf("%q is about %v, %v", k, r, ok)
			}
		}
		if got, err := ParseReport(report.Key()); err != nil || got != report {
			t.Errorf("%q is %+v, %v", report.Key(), got, err)
		}
	}
}

// TestLines: the line of a report identifies it, and Placed reports sort first. Older versions,
// which know only Placed reports, reject all other lines.
func TestLines(t *testing.T) {
	for _, o := range objects {
		placed := Report{"l", Placed, o}.Line()
		if placed != o.Path() {
			t.Errorf("of a placed object the line is %q", placed)
		}
		for _, origin := range []Origin{Placed, Upsynced, Owned} {
			r := Report{"l", origin, o}
			if got, err := ParseLine("l", r.Line()); err != nil || got != r || !strings.HasPrefix(r.Line(), LinePrefix(origin)) {
				t.Errorf("%q is %+v, %v", r.Line(), got, err)
			}
			before, err := ParsePath(r.Line())
			if origin != Placed && (r.Line() <= placed || err == nil && ValidateName(string(before.Space)) == nil) {
				t.Errorf("%q may be taken for one of %q", r.Line(), placed)
			}
		}
	}
	for _, line := range []string{"~/a/core/configmaps/n/x", "~placed:a/core/configmaps/n/x", "~other:a/core/configmaps/n/x", "~born:", "~born:a", "~borna/core/configmaps/n/x"} {
		if got, err := ParseLine("l", line); err == nil {
			t.Errorf("%q is %+v", line, got)
		}
	}
}

func TestOtherKeys(t *testing.T) {
	for _, k := range []string{"", "o", "o/", "o/a", "o/a/core/pods", "o/a/b/c/d/e/f", "r/l/a/placed/core/pods/n/x", "e/l", "m/x"} {
		if o, err := ParseObject(k); err == nil {
			t.Errorf("%q is %+v", k, o)
		}
	}
	for _, k := range []string{"", "o/a/core/pods/n/x", "r/l", "r/l/a/placed", "r/l/a/placed/core/pods", "e/l"} {
		if r, err := ParseReport(k); err == nil {
			t.Errorf("%q is %+v", k, r)
		}
	}
	for _, k := range []string{"", "o/", "o/a", "o/a/core", "o/a/core/pods", "r/l/a/placed/core/pods/n/x", "e/l", "m/x"} {
		if r, ok := ResourceOf(k); ok {
			t.Errorf("%q is of %q", k, r)
		}
	}
	if r, ok := ResourceOf(ResourcePrefix("a", Namespaces)); !ok || r != Namespaces.String() {
		t.Errorf("the prefix of a resource is that of %q, %v", r, ok)
	}
	for _, k := range []string{"", "o", "o/", "o/a", "o/a/core/pods", "r/l", "r/l/a/placed", "r/l/a/placed/core/pods", "e/l", "m/x"} {
		if r, ok := SubjectOf(k); ok {
			t.Errorf("%q is about %v", k, r)
		}
	}
	if s, r, rest, ok := Split("o/a/core/po"); !ok || s != "a" || r != NewResource("", "po") || rest != "" {
		t.Errorf("the beginning of a key splits into %q, %v, %q, %v", s, r, rest, ok)
	}
	if _, _, _, ok := Split(Marker("x")); ok {
		t.Error("a marker's key splits as an object's")
	}
}

// TestWhatKeysAreAbout converts names to keys and back.
func TestWhatKeysAreAbout(t *testing.T) {
	l, s := Location("l"), Space("l")
	for k, is := range map[string]bool{l.Key(): true, Enrolment(l): true, s.Key(): false, Marker("l"): false, "o/l/orrery.dev/locations/l": false} {
		if got, ok := LocationOf(k); ok != is || ok && got != l {
			t.Errorf("%q is about location %q, %v", k, got, ok)
		}
	}
	if m, ok := MarkerOf(Marker("m")); !ok || m != "m" {
		t.Errorf("marker is %q, %v", m, ok)
	}
	if _, ok := MarkerOf(l.Key()); ok {
		t.Error("a location's key is a marker's")
	}
}

func TestMarks(t *testing.T) {
	for mark, want := range map[string]Location{OwnershipMark("l", "0123456789"): "l", OwnershipMark("a-b", "1"): "a-b", "l": "l", "": ""} {
		if got := MarkedLocation(mark); got != want {
			t.Errorf("%q marks what is of %q, want %q", mark, got, want)
		}
	}
}

// TestPrefixes: no name is mistaken for a prefix of another.
func TestPrefixes(t *testing.T) {
	r := NewResource("apps", "deployments")
	in := Object{"a", Identity{r, "n", "x"}}.Key()
	for _, p := range []string{SpacePrefix("a"), ResourcePrefix("a", r), NamespacePrefix("a", r, "n")} {
		if !strings.HasPrefix(in, p) || in >= After(p) {
			t.Errorf("%q is not in %q", in, p)
		}
		for _, o := range []Object{{"ab", Identity{r, "n", "x"}}, {"a", Identity{Resource{"apps", "deployments2"}, "n", "x"}}, {"a", Identity{r, "n2", "x"}}} {
			if p == SpacePrefix("a") && o.Space == "a" || p == ResourcePrefix("a", r) && o.Space == "a" && o.Resource == r {
				continue
			}
			if strings.HasPrefix(o.Key(), p) {
				t.Errorf("%q is in %q", o.Key(), p)
			}
		}
	}
}

// TestSplitMakesNothing: functions that run for every change, and every row of a list, do not
// allocate.
func TestSplitMakesNothing(t *testing.T) {
	k := Object{"a", Identity{NewResource("apps", "deployments"), "n", "x"}}.Key()
	if n := testing.AllocsPerRun(100, func() {
		if _, _, rest, ok := Split(k); !ok || rest == "" {
			t.Error(rest)
		}
		if _, err := ParseObject(k); err != nil {
			t.Error(err)
		}
		if _, ok := SubjectOf(k); !ok {
			t.Error("no resource")
		}
		if _, ok := LocationOf(k); ok {
			t.Error("a location")
		}
		if r, ok := ResourceOf(k); !ok {
			t.Error(r)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidateName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "a-b": true, strings.Repeat("a", maxNameLength): true,
		"": false, "A": false, "a.b": false, "a--b": false, "-a": false, "a/b": false, strings.Repeat("a", maxNameLength+1): false,
	} {
		if err := ValidateName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestParseIdentity(t *testing.T) {
	for _, id := range []Identity{
		{Resource: NewResource("", "namespaces"), Name: "n"},
		{Resource: NewResource("apps", "deployments"), Namespace: "n", Name: "d"},
	} {
		if got, err := ParseIdentity(id.String()); err != nil || got != id {
			t.Errorf("%s: %+v, %v", id, got, err)
		}
	}
	if _, err := ParseIdentity("core/configmaps"); err == nil {
		t.Error("what names nothing is an identity")
	}
}

func TestSplitVersion(t *testing.T) {
	for gv, want := range map[string][2]string{"v1": {"", "v1"}, "apps/v1": {"apps", "v1"}} {
		if group, version := SplitVersion(gv); group != want[0] || version != want[1] {
			t.Errorf("%s: %q, %q", gv, group, version)
		}
	}
}
