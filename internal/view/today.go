package view

import (
	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/table"
)

// today is a row as its CRD has it read now, whatever the CRD said when it was
// written; of a built-in kind, and of what a location gets, it is the row
// itself. That a row reads as it is written is found out once.
func (r *reader) today(row *table.Row) *table.Row {
	custom := r.kind.Custom
	if custom == nil || row == nil || r.look.at != "" || r.look.metadataOnly {
		return row
	}
	if row.AsWritten.Load() == custom.ID() {
		return row
	}
	value, err := custom.Today(row.Value)
	if err != nil {
		return row // what can't be read by the CRD of today is shown as it was written
	}
	if value == nil {
		row.AsWritten.Store(custom.ID())
		return row
	}
	return &table.Row{Entry: table.NewEntry(row.Key, value, row.CreateRev, row.ModRev), In: row.In}
}

// redefinition tells a watch that the CRD of its kind was changed or deleted.
// The watch then ends, and clients that begin another one get what is new.
type redefinition struct {
	reader *reader
	space  key.Space
	trigger
	// asked says that the kind was what it was when the watch began to follow.
	asked bool
}

func (r *reader) redefinition() (redefinition, error) {
	l, ok := r.lens.(spaceLens)
	if !ok || r.server.config.Defines == nil || r.kind.Custom == nil || r.kind.GVK.Group == v1alpha1.Group {
		return redefinition{}, nil
	}
	crd := key.Identity{Resource: key.CRDs, Name: r.kind.Resource.Resource + "." + r.kind.GVK.Group}
	t := r.server.config.Table
	sub, err := t.Subscribe(t.Rev(), nil, table.At(key.Object{Space: l.name, Identity: crd}.Key()))
	return redefinition{reader: r, space: l.name, trigger: trigger{sub}}, err
}

// until is the last revision at which the kind was what it was when the watch
// began; ok says that it no longer is. Without a change of the CRD it costs nothing.
func (d *redefinition) until() (rev int64, ok bool, err error) {
	if d.sub == nil {
		return 0, false, nil
	}
	steps, upTo, err := d.sub.Poll()
	if err != nil || d.asked && len(steps) == 0 {
		return 0, false, err
	}
	if d.asked = true; d.reader.server.config.Defines(d.space, d.reader.kind) {
		return 0, false, nil
	}
	if len(steps) > 0 {
		upTo = steps[0].Rev
	}
	return upTo, true, nil
}
