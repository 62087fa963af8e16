package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"orrery.dev/orrery/test/support/env"
	"orrery.dev/orrery/test/support/world"
)

// placementDoc explains what TestSeats shows.
const placementDoc = "../../../docs/placement.md"

// shownUnder is the first YAML below a heading of placementDoc.
func shownUnder(t *testing.T, heading string) string {
	t.Helper()
	text, err := os.ReadFile(placementDoc)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(text), "\n"+heading)
	_, rest, _ = strings.Cut(rest, "```yaml\n")
	block, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatalf("%s has no YAML under %q", placementDoc, heading)
	}
	return block
}

// seats is a space of which a Placement picks two of three sites.
type seats struct {
	*world.World
	t     *testing.T
	space string
}

// sitesWith returns the sites that have a ConfigMap, with its UID at each.
func (s *seats) sitesWith(name string) (map[string]string, error) {
	all := map[string]string{}
	for _, site := range s.Sites {
		c, err := site.Get(s.t, world.ConfigMaps, "default", name)
		switch {
		case err == nil:
			all[site.Name] = string(c.GetUID())
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return all, nil
}

// becomes waits until exactly some sites have a ConfigMap.
func (s *seats) becomes(what, name string, want ...string) {
	s.t.Helper()
	slices.Sort(want)
	s.Eventually(what, func() error {
		found, err := s.sitesWith(name)
		if err != nil {
			return err
		}
		var names []string
		for site := range found {
			names = append(names, site)
		}
		if slices.Sort(names); !slices.Equal(names, want) {
			return fmt.Errorf("%q is at %v, want %v", name, names, want)
		}
		return nil
	})
}

func (s *seats) taint(site, taints string) {
	s.t.Helper()
	env.Kubectl(s.t, s.Root, "patch", "location", site, "--type=merge", "-p", `{"spec":{"taints":`+taints+`}}`)
}

func (s *seats) why(name, site string, text string) {
	s.t.Helper()
	why := env.Command{Binary: "orrery", Args: []string{"why", "configmap/" + name, "--location", site}, Kubeconfig: s.space}
	if out, err := why.Try(s.t); !strings.Contains(out, text) {
		s.t.Errorf("why %s at %s does not print %q:\n%s%v", name, site, text, out, err)
	}
}

// TestSeats picks sites, taints them, adds tolerations, and restarts the hub in between. Objects keep
// their sites as long as they may. Then a policy of the platform assigns the objects too, and a chart
// is installed.
func TestSeats(t *testing.T) {
	t.Parallel()
	s := &seats{World: world.New(t), t: t}
	regions := map[string]string{"a": "eu", "b": "eu", "c": "us"}
	for _, site := range []string{"a", "b", "c"} {
		s.Join(site, nil, env.APIOnly())
		env.Kubectl(t, s.Root, "label", "location", site, "region="+regions[site])
	}
	s.space = s.AddSpace("web")
	env.KubectlIn(t, s.space, shownUnder(t, "# Which objects go where"), "apply", "-f", "-")
	env.Kubectl(t, s.space, "create", "configmap", "old")
	var first map[string]string
	env.Orrery(t, s.Root, "location", "add", "plant7", "--label", "region=eu", "--property", "cameras=4")
	s.taint("plant7", `[{"key":"closed","effect":"NoPlace"}]`) // which nothing here tolerates
	out := env.Orrery(t, s.Root, "location", "describe", "plant7")
	for _, line := range []string{`Properties:\s+cameras=4\n`, `Taints:\s+closed:NoPlace\n`} {
		if !regexp.MustCompile(line).MatchString(out) {
			t.Errorf("described as\n%s", out)
		}
	}
	s.Eventually("two sites have it, one of each region", func() (err error) {
		if first, err = s.sitesWith("old"); err == nil && (len(first) != 2 || first["c"] == "") {
			err = fmt.Errorf("it is at %v", first)
		}
		return err
	})
	x, y := "a", "b"
	if first[x] == "" {
		x, y = y, x
	}
	s.Eventually("it is reported", func() error {
		out, err := env.TryKubectl(t, s.space, "get", "placement", "two", "-o", "jsonpath={.status.locations} {.status.applied}")
		if err != nil {
			return err
		}
		if out != "2 2" {
			return fmt.Errorf("locations and applied are %s", out)
		}
		return nil
	})

	s.taint(x, `[{"key":"full","effect":"NoPlace"}]`)
	env.Kubectl(t, s.space, "create", "configmap", "new")
	s.becomes("another object goes where there is no taint", "new", y, "c")
	s.why("new", x, "taints: full:NoPlace is not tolerated")
	s.why("old", y, "pick: 2 locations are picked")
	s.Hub.Restart()
	env.Kubectl(t, s.space, "label", "configmap", "old", "new", "touched=yes")
	s.becomes("after a restart", "new", y, "c")
	s.becomes("after a restart", "old", x, "c")
	if now, err := s.sitesWith("old"); err != nil || now[x] != first[x] || now["c"] != first["c"] {
		t.Errorf("%v was made anew: %v, %v", first, now, err)
	}

	tolerate := func(list string) {
		env.Kubectl(t, s.space, "patch", "placement", "two", "--type=merge", "-p", `{"spec":{"tolerations":`+list+`}}`)
	}
	tolerate(`[{"key":"full","operator":"Exists"}]`)
	s.becomes("who tolerates the taint does not notice it", "new", x, "c")
	tolerate(`null`)
	s.becomes("the taint was there before the object", "new", y, "c")
	s.taint(x, `[{"key":"full","effect":"Evict"}]`)
	s.becomes("evicted", "old", y, "c")
	s.taint(x, `null`)
	s.becomes("without the taint it is as at first", "old", x, "c")
	if out := env.KubectlFails(t, s.Root, "patch", "location", x, "--type=merge", "-p", `{"spec":{"taints":[{"key":"a b","effect":"NoPlace"}]}}`); !strings.Contains(out, "spec.taints[0].key") {
		t.Errorf("a bad taint: %s", out)
	}
	s.policy()
	s.release("b", "c")
}
