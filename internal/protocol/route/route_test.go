package route

import "testing"

func TestOf(t *testing.T) {
	for path, want := range map[string]struct {
		root Root
		rest string
	}{
		"/spaces/a/api/v1/namespaces/n": {Space("a"), "api/v1/namespaces/n"},
		"/spaces/a":                     {Space("a"), ""},
		"/spaces/a/":                    {Space("a"), ""},
		"/spaces/*/api":                 {Space("*"), "api"},
		"/spaces/":                      {Space(""), ""},
		"/spaces//api":                  {Space(""), "api"},
		"/spaces":                       {Root{}, "/spaces"},
		"/views/locations/l/apis":       {View("l"), "apis"},
		"/views/locationsl/apis":        {Root{}, "/views/locationsl/apis"},
		"/views/reports/spaces/a/locations/l/apis/apps": {Reported("a", "l"), "apis/apps"},
		"/views/reports/spaces/*/locations/*":           {Reported("*", "*"), ""},
		"/views/reports/spaces/a/api/v1":                {Root{ReportViews, "spaces/a/api/v1"}, ""},
		"/views/reports/":                               {Root{ReportViews, ""}, ""},
		"/views/reports":                                {Root{}, "/views/reports"},
		"/agent/v1/locations/l/desired":                 {Agent("l"), Desired},
		"/ask/v1/spaces/a/why":                          {Question("a"), Why},
		"/metrics":                                      {Root{}, Metrics},
		"":                                              {Root{}, ""},
	} {
		root, rest := Parse(path)
		if root != want.root || rest != want.rest {
			t.Errorf("%q is below %v: %q, want %v: %q", path, root, rest, want.root, want.rest)
		}
	}
}

func TestPath(t *testing.T) {
	if got, want := Agent("a b/../c").Path(Reports), "/agent/v1/locations/a%20b%2F..%2Fc/reports"; got != want {
		t.Errorf("path is %q, want %q", got, want)
	}
	if got, want := Space("a").String(), "/spaces/a"; got != want {
		t.Errorf("root is %q, want %q", got, want)
	}
	if !Space("a").Kubernetes() || !View("l").Kubernetes() || !Reported("a", "l").Kubernetes() || Agent("l").Kubernetes() || Question("a").Kubernetes() || (Root{}).Kubernetes() {
		t.Error("the APIs of Kubernetes are those of spaces and views")
	}
}

func TestReported(t *testing.T) {
	s, l, ok := Reported("a", "*").Reported()
	if s != "a" || l != "*" || !ok || Reported("*", "l").Path("api") != "/views/reports/spaces/%2A/locations/l/api" {
		t.Errorf("%q %q %v %q", s, l, ok, Reported("*", "l").Path("api"))
	}
	for _, name := range []string{"", "spaces/a", "spaces/a/locations", "spaces/a/locations/", "spaces//locations/l", "locations/l/spaces/a"} {
		if _, _, ok := (Root{ReportViews, name}).Reported(); ok {
			t.Errorf("%q is of a space and a location", name)
		}
	}
	if _, _, ok := Space("spaces/a/locations/l").Reported(); ok {
		t.Error("a space is no view")
	}
}
