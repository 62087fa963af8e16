package protocol

import (
	"maps"
	"slices"
	"strings"

	"orrery.dev/orrery/internal/protocol/key"
	"orrery.dev/orrery/internal/protocol/wire"
)

// reportStore has the reports of a location's agent, by key. It accepts only reports of objects that are
// desired, were reported before, or are requested by the settings. The Hub's lock protects it.
type reportStore struct {
	location key.Location
	all      map[string]wire.Report
}

// accept stores reports, and returns the refused ones. changed is set if a stored report has changed.
func (b *reportStore) accept(lines []wire.ReportLine, settings *wire.Settings, content map[string]wire.Frame) (refused []wire.RefusedReport, changed bool) {
	before := maps.Clone(b.all)
	for _, l := range lines {
		if reason := b.refuses(l, settings, content); reason != "" {
			refused = append(refused, wire.RefusedReport{Key: l.Key, Message: reason})
			continue
		}
		if delete(b.all, l.Key); l.Report != nil {
			b.all[l.Key] = l.Report.Fit()
		}
	}
	return refused, !maps.EqualFunc(before, b.all, func(a, b wire.Report) bool { return a.Sum() == b.Sum() })
}

// refuses returns the reason for which a report is refused, or an empty string if it is accepted.
func (b *reportStore) refuses(l wire.ReportLine, settings *wire.Settings, content map[string]wire.Frame) string {
	object, err := key.ParseLine(b.location, l.Key)
	if err == nil {
		err = object.Validate()
	}
	_, known := b.all[l.Key]
	_, assigned := content[l.Key]
	switch {
	case err != nil:
		return err.Error()
	case l.Removed:
		return ""
	case object.Origin != key.Placed && l.Report != nil && !isRequested(object, l.Report, settings, content):
		return "the object is not requested"
	case object.Origin == key.Upsynced && l.Report != nil && !known && b.full(settings):
		return "the location's limits are reached"
	case object.Origin != key.Placed && l.Report != nil:
		return ""
	case !known && !assigned:
		return "the object is not assigned to the location"
	case l.Report == nil:
		return "neither a report nor a removal"
	}
	return ""
}

// full reports whether the limit of upsynced objects is reached.
func (b *reportStore) full(settings *wire.Settings) bool {
	n := 0
	for k := range b.all {
		if strings.HasPrefix(k, key.LinePrefix(key.Upsynced)) {
			n++
		}
	}
	return settings.UpsyncObjects > 0 && n >= settings.UpsyncObjects
}

// drop drops reports that are not requested, and reports whether there were any.
func (b *reportStore) drop(settings *wire.Settings, content map[string]wire.Frame) (some bool) {
	for k, r := range b.all {
		if line, err := key.ParseLine(b.location, k); err == nil && line.Origin != key.Placed && !isRequested(line, &r, settings, content) {
			delete(b.all, k)
			some = true
		}
	}
	return some
}

// isRequested reports whether a report about an object that was not placed is requested.
func isRequested(r key.Report, report *wire.Report, settings *wire.Settings, content map[string]wire.Frame) bool {
	if r.Origin == key.Owned {
		put := content[key.PathPrefix(r.Space)+report.Owner].Put
		return put != nil && slices.Contains(strings.Split(put.Policy.Associated, "\n"), r.Resource.String())
	}
	allows := func(all []string, one string) bool { return all == nil || slices.Contains(all, one) }
	return slices.ContainsFunc(settings.Upsync, func(u wire.Upsync) bool {
		return u.Space == string(r.Space) && (u.Group == "*" || u.Group == r.Group) && slices.Contains(u.Resources, r.Resource.Resource) &&
			allows(u.Names, r.Name) && allows(u.Namespaces, r.Namespace)
	})
}
