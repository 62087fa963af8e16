package read

import (
	"time"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/hub/storage/table"
)

// reportColumns follow the columns of the kind, as countColumns do.
func reportColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		{Name: "Location", Type: "string", Description: "The location that reports the object."},
		{Name: "State", Type: "string", Description: "How far the object is there; Present, if it was not placed."},
		{Name: "Health", Type: "string", Description: "How the object does there."},
		{Name: "Fresh", Type: "string", Description: "Live, or Stale and for how long the location could not be seen: what it reported may be old."},
	}
}

// cells returns the cells of reportColumns; source is nil for a bookmark.
func (r *reportComposer) cells(source *table.Row) []any {
	cells := make([]any, len(reportColumns()))
	for i := range cells {
		cells[i] = ""
	}
	if source != nil {
		o, t := source.In.(*reported), r.accountOf(source)
		cells = []any{string(o.location), string(t.State), t.health, "Live"}
		if row, _ := r.table.Get(o.location.Key()); r.stale(o.location) {
			cells[3] = "Stale" + forHowLong(row)
		}
	}
	return cells
}

// forHowLong returns how long the reports of a Location have been stale, or "" if its conditions
// lack the time.
func forHowLong(location *table.Row) string {
	var since time.Time
	for _, name := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionClusterAvailable} {
		c := gjson.GetBytes(location.Value, `status.conditions.#(type=="`+name+`")`)
		changed := c.Get("lastTransitionTime").Time()
		if c.Get("status").Str == string(metav1.ConditionFalse) && !changed.IsZero() && (since.IsZero() || changed.Before(since)) {
			since = changed
		}
	}
	if since.IsZero() {
		return ""
	}
	return " " + duration.HumanDuration(time.Since(since))
}
