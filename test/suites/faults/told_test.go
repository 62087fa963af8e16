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

// compareStates compares the states that the hub reports with the objects of a site. An object that
// the site has is Applied. It is in Conflict if the site has an object of another space or one that
// Orrery does not manage.
func (l *life) compareStates(site string, want wants, have world.Listed) error {
	states := map[string]string{} // state by space and key
	var all []error
	for _, space := range spaceNames {
		if err := l.addStates(space, site, states); err != nil {
			return err
		}
	}
	for k, bySpace := range want {
		_, foreign := l.foreign[site][k]
		for space := range bySpace {
			state := wire.Applied
			if foreign || spaceOf(have[k]) != space {
				state = wire.InConflict
			}
			if now := states[space+"|"+k]; now != string(state) {
				all = append(all, fmt.Errorf("the hub reports %s of space %q as %q, want %s", k, space, now, state))
			}
			delete(states, space+"|"+k)
		}
	}
	for k, state := range states {
		all = append(all, fmt.Errorf("the hub reports %s as %s, but it is not assigned", k, state))
	}
	return errors.Join(all...)
}

// addStates adds the states that the hub reports for the objects of a space at a site.
func (l *life) addStates(space, site string, states map[string]string) error {
	config := l.Hub.PathConfig("")
	config.Timeout = editTimeout
	client, err := rest.UnversionedRESTClientFor(world.Unversioned(config))
	if err != nil {
		return err
	}
	body, err := client.Get().AbsPath("/ask/v1/spaces", space, "status").Do(l.t.Context()).Raw()
	if err != nil {
		return fmt.Errorf("read the status of space %q: %w", space, err)
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
				states[space+"|"+keyOfPath(o.Object)] = p.State
			}
		}
	}
	return nil
}

// keyOfPath is the key in world.Listed of GROUP/RESOURCE/[NAMESPACE/]NAME.
func keyOfPath(path string) string {
	fields := strings.Split(path, "/")
	if fields[0] == "core" {
		fields[0] = ""
	}
	if len(fields) == 3 {
		fields = []string{fields[0], fields[1], "", fields[2]}
	}
	fields[1] = map[string]string{
		"namespaces": "Namespace", "configmaps": "ConfigMap", "deployments": "Deployment", "widgets": "Widget", "gadgets": "Gadget",
		"customresourcedefinitions": "CustomResourceDefinition",
	}[fields[1]]
	return strings.Join(fields, "/")
}
