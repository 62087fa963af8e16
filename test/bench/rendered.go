package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/apis/v1alpha1"
)

// renderedHub is a hub of its own at whose locations everything is different: each has
// properties that no other has, and a Customizer's rules put them into every object of a
// namespace, all of which are placed at all locations. Nothing can be shared among
// locations. Objects of another namespace, to which no rule applies, are placed alike.
type renderedHub struct {
	ownHub
	// writers write properties of locations.
	writers []*client
}

const (
	ruledNamespace = "ruled"
	plainNamespace = "plain"
	customizerPath = orreryAPI + "/customizers"
)

// ownRenderings measures such a hub: one object for all locations, beside one that all get
// alike; rules that change, for all objects and locations; properties of one location that
// change; the memory of it; and a restart.
func (b *bench) ownRenderings() error {
	own, err := b.newOwnHub(stateSpace(0))
	if err != nil {
		return err
	}
	defer own.end()
	h := &renderedHub{ownHub: own}
	return h.take("render", phase{"locations", h.addLocations}, phase{"one object", h.addOne}, phase{"objects", h.addObjects},
		phase{"rules", h.changeRules}, phase{"properties", h.changeProperties}, phase{"restart", h.restart})
}

// pairs are the objects at all locations that are rendered.
func (h *renderedHub) pairs() int { return h.bench.size.sites * h.bench.size.ownEach }

// addLocations makes locations with properties, the Placement, and the Customizer.
func (h *renderedHub) addLocations() (err error) {
	b := h.bench
	if err := h.furnish(1, b.size.sites); err != nil {
		return err
	}
	h.writers = make([]*client, connecting)
	for i := range h.writers {
		if h.writers[i], err = newClient(b.hub.PathConfig("spaces/root")); err != nil {
			return err
		}
	}
	if err := share(b.ctx, h.writers, b.size.sites, func(ctx context.Context, c *client, i int) error {
		return c.patch(ctx, locationsPath+"/"+simulatedName(i), propertiesOf(i, "0"))
	}); err != nil {
		return err
	}
	all := v1alpha1.LocationSelector{Selector: &metav1.LabelSelector{}}
	for _, n := range []string{ruledNamespace, plainNamespace} {
		if err := b.space.create(b.ctx, "/api/v1/namespaces", namespaceOf(n)); err != nil {
			return err
		}
		if err := b.space.create(b.ctx, placementsPath, placement(n, n, "configmaps", all, v1alpha1.ReturnStatusNone)); err != nil {
			return err
		}
	}
	if err := b.space.create(b.ctx, customizerPath, siteRules("0")); err != nil {
		return err
	}
	return b.calmDown()
}

// propertiesOf is a patch by which a location has properties that no other has.
func propertiesOf(i int, round string) string {
	return fmt.Sprintf(`{"spec":{"properties":{"registry":"registry-%d.example","cameras":["a%[1]d","b%[1]d"],"number":%[1]d,"round":%[2]q}}}`, i, round)
}

// siteRules returns the rules: a value, and values that depend on properties.
func siteRules(round string) []byte {
	rule := func(path, expression string) v1alpha1.Rule {
		return v1alpha1.Rule{Path: path, Expression: expression}
	}
	return encoded(v1alpha1.Customizer{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Customizer"},
		ObjectMeta: metav1.ObjectMeta{Name: "site"},
		Spec: v1alpha1.CustomizerSpec{
			Match: []v1alpha1.ObjectTest{{Namespaces: []string{ruledNamespace}, Resources: []string{"configmaps"}}},
			Rules: []v1alpha1.Rule{
				rule("$.data.rules", "'"+round+"'"),
				rule("$.data.image", "location.properties.registry + '/' + self.substring(self.indexOf('/') + 1)"),
				rule("$.data.cameras", "location.properties.cameras.join(',') + '/' + location.properties.round"),
				rule("$.metadata.labels.site", "location.name"),
			},
		},
	})
}

// ruled is an object of 2 KB to which the rules apply.
func ruled(name string) []byte {
	return bytes.Replace(configMap(ruledNamespace, name, 2<<10, "wanted"), []byte(`"data":{`), []byte(`"data":{"image":"docker.io/app:1",`), 1)
}

// isOf reports whether an arrival is an object as its location gets it.
func isOf(a arrival, name string, texts ...string) bool {
	for _, text := range append(texts, `"name":"`+name+`"`, `"site":"`+a.location+`"`) {
		if !bytes.Contains(a.put.Object, []byte(text)) {
			return false
		}
	}
	return true
}

// addOne makes objects one by one, each when all locations have the one before: in turn one
// that each location gets as its own, and one that all get alike.
func (h *renderedHub) addOne() error {
	b := h.bench
	var own, alike, ratios []float64
	for i := range b.size.waves {
		name := fmt.Sprintf("one-%d", i)
		first, err := h.timed(b.size.sites, func() error {
			return b.space.create(b.ctx, configMaps(ruledNamespace), ruled(name))
		}, func(a arrival) bool { return isOf(a, name) })
		if err != nil {
			return err
		}
		second, err := h.timed(b.size.sites, func() error {
			return b.space.create(b.ctx, configMaps(plainNamespace), configMap(plainNamespace, name, 2<<10, "wanted"))
		}, func(a arrival) bool { return bytes.Contains(a.put.Object, []byte(`"name":"`+name+`"`)) })
		if err != nil {
			return err
		}
		own, alike, ratios = append(own, first), append(alike, second), append(ratios, first/second)
	}
	b.report.add("render.create", result{value: median(own), samples: own, comment: fmt.Sprintf("%d locations with properties of their own, 4 rules", b.size.sites)})
	b.report.add("render.create.relative", result{value: median(ratios), samples: ratios, comment: fmt.Sprintf("one that all get alike %.3f s", median(alike))})
	return nil
}

// timed is how many seconds it takes from just before a write until n locations have what
// is looks for. Then it waits until all is reported.
func (h *renderedHub) timed(n int, write func() error, is func(arrival) bool) (float64, error) {
	start := time.Now()
	if err := write(); err != nil {
		return 0, err
	}
	last, err := h.wave(n, is)
	if err != nil {
		return 0, err
	}
	return last.Sub(start).Seconds(), h.bench.calmDown()
}

// addObjects makes the other objects, and reads what they cost.
func (h *renderedHub) addObjects() error {
	b := h.bench
	each, err := h.grownBy(h.pairs(), func() error {
		stop := h.drain()
		defer stop()
		if err := share(b.ctx, []*client{b.space}, b.size.ownEach, func(ctx context.Context, c *client, i int) error {
			return c.create(ctx, configMaps(ruledNamespace), ruled(nameOf(i)))
		}); err != nil {
			return err
		}
		n := b.size.ownEach + b.size.waves
		return b.waitApplied(ruledNamespace, n, n*b.size.sites)
	})
	b.report.set("render.pair.memory", each, "%d objects of 2 KB, each rendered for %d locations; hub %s", b.size.ownEach, b.size.sites, megabytes(h.last))
	return err
}

// changeRules changes a rule, by which all objects are rendered again for all locations.
func (h *renderedHub) changeRules() error {
	b := h.bench
	n := b.size.ownEach + b.size.waves
	var rates []float64
	cpu := b.hub.Usage().CPU
	const rounds = 2
	for i := range rounds {
		round := fmt.Sprint(i + 1)
		have, is := map[string]int{}, `"rules":"`+round+`"`
		took, err := h.timed(b.size.sites, func() error {
			return b.space.patch(b.ctx, customizerPath+"/site", fmt.Sprintf(`{"spec":{"rules":%s}}`, rulesOf(siteRules(round))))
		}, func(a arrival) bool {
			if bytes.Contains(a.put.Object, []byte(is)) {
				have[a.location]++
			}
			return have[a.location] == n
		})
		if err != nil {
			return err
		}
		rates = append(rates, float64(n*b.size.sites)/took)
	}
	each := (b.hub.Usage().CPU - cpu).Seconds() * 1e6 / float64(rounds*n*b.size.sites)
	b.report.add("render.rate", result{value: median(rates), samples: rates, comment: fmt.Sprintf("%d objects for %d locations; hub's CPU %.0f µs for each, with its report", n, b.size.sites, each)})
	return nil
}

// rulesOf is the JSON of a Customizer's rules.
func rulesOf(customizer []byte) string {
	text := string(customizer)
	text = text[strings.Index(text, `"rules":`)+len(`"rules":`):]
	return text[:strings.LastIndex(text, "]")+1]
}

// changeProperties changes a property of one location, several times over, and counts what
// others are sent.
func (h *renderedHub) changeProperties() error {
	b := h.bench
	n := b.size.ownEach + b.size.waves
	var took []float64
	sent := h.sent.Load()
	for i := range max(2, b.size.edits/30) {
		round := fmt.Sprint("r", i+1)
		site := i % b.size.sites
		have := 0
		seconds, err := h.timed(1, func() error {
			return b.root.patch(b.ctx, locationsPath+"/"+simulatedName(site), propertiesOf(site, round))
		}, func(a arrival) bool {
			if a.location == simulatedName(site) && bytes.Contains(a.put.Object, []byte("/"+round+`"`)) {
				have++
			}
			return have == n
		})
		if err != nil {
			return err
		}
		took = append(took, seconds*1e3)
	}
	wanted := len(took) * n
	b.report.set("render.property.p50", quantile(took, 0.5), "%d objects at one of %d locations, longest %.1f ms", n, b.size.sites, quantile(took, 1))
	b.report.set("render.property.others", float64(h.sent.Load()-sent)-float64(wanted), "%d objects sent", wanted)
	return nil
}

// restart kills the hub and starts it again, as the fleet's does.
func (h *renderedHub) restart() error {
	b := h.bench
	if err := b.calmDown(); err != nil {
		return err
	}
	b.hub.Kill()
	h.forgetBacks()
	sent := h.sent.Load()
	start := time.Now()
	b.hub.Start()
	last, err := h.allBack(len(h.all))
	if err != nil {
		return err
	}
	cpu := b.hub.Usage().CPU
	if err := b.calmDown(); err != nil {
		return err
	}
	b.report.set("render.restart.back", last.Sub(start).Seconds(), "%d locations, %d renderings; hub's CPU %.2f s until then", b.size.sites, h.pairs(), cpu.Seconds())
	b.report.set("render.restart.sent", float64(h.sent.Load()-sent), "")
	kept, err := b.kept()
	b.report.set("render.restart.memory", float64(kept)/1e6, "RSS %s; before %s", megabytes(b.hub.Usage().RSS), megabytes(h.last))
	return err
}
