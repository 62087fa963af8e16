package faults

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/world"
)

// told compares the state that the hub shows of every object at a site with what is
// there: what the site has is Applied; where it has another space's object, or one that
// Orrery did not make, it is in Conflict.
func (l *life) told(site string, want wants, have world.Listed) error {
	said := map[string]string{} // state by space and key
	var all []error
	for _, space := range spaceNames {
		if err := l.ask(space, site, said); err != nil {
			return err
		}
	}
	for k, of := range want {
		_, foreign := l.foreign[site][k]
		for space := range of {
			state := wire.Applied
			if foreign || spaceOf(have[k]) != space {
				state = wire.InConflict
			}
			if now := said[space+"|"+k]; now != string(state) {
				all = append(all, fmt.Errorf("%s of space %q is said to be %q, not %s", k, space, now, state))
			}
			delete(said, space+"|"+k)
		}
	}
	for k, state := range said {
		all = append(all, fmt.Errorf("%s is said to be %s and not assigned", k, state))
	}
	return errors.Join(all...)
}

// ask adds what the hub says of a space's objects at a site.
func (l *life) ask(space, site string, said map[string]string) error {
	config := l.Hub.PathConfig("")
	config.Timeout = editTimeout
	client, err := rest.UnversionedRESTClientFor(world.Unversioned(config))
	if err != nil {
		return err
	}
	body, err := client.Get().AbsPath("/ask/v1/spaces", space, "status").Do(l.t.Context()).Raw()
	if err != nil {
		return fmt.Errorf("ask for the status of space %q: %w", space, err)
	}
	var answer struct {
		Objects []struct {
			Object string `json:"object"`
			Places []struct {
				Location string `json:"location"`
				State    string `json:"state"`
			} `json:"places"`
		} `json:"objects"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("decode the status of space %q: %w", space, err)
	}
	for _, o := range answer.Objects {
		for _, p := range o.Places {
			if p.Location == site {
				said[space+"|"+keyOfPath(o.Object)] = p.State
			}
		}
	}
	return nil
}

// keyOfPath is the key in world.Listed of GROUP/RESOURCE/[NAMESPACE/]NAME.
func keyOfPath(path string) string {
	part := strings.Split(path, "/")
	if part[0] == "core" {
		part[0] = ""
	}
	if len(part) == 3 {
		part = []string{part[0], part[1], "", part[2]}
	}
	part[1] = map[string]string{
		"namespaces": "Namespace", "configmaps": "ConfigMap", "deployments": "Deployment", "widgets": "Widget", "gadgets": "Gadget",
		"customresourcedefinitions": "CustomResourceDefinition",
	}[part[1]]
	return strings.Join(part, "/")
}
