package store

import "time"

// Diagnosis is the reason why an object is not healthy.
type Diagnosis struct {
	Text string `json:"text"`
	// Since is when the object was first diagnosed without having been healthy in between.
	Since time.Time `json:"since"`
	// Final reports that the object cannot become healthy without a change, or not in time.
	Final bool `json:"final,omitempty"`
}

// describes reports whether l is of an object with the UID and generation.
func (l *Live) describes(uid string, generation int64) bool {
	return l != nil && uid != "" && l.UID == uid && l.Generation == generation
}

// Diagnosed returns the text of the diagnosis; empty if there is none.
func (l *Live) Diagnosed() string {
	if l.Diagnosis == nil {
		return ""
	}
	return l.Diagnosis.Text
}

// Update replaces the observed object of an identity. While the object needs a diagnosis and is the
// same, by UID and generation, it keeps the one it has.
func (o Observed) Update(id string, l *Live) error {
	l.Diagnosis = nil
	if l.IsSuspect {
		old, err := o.Get(id)
		if err != nil {
			return err
		}
		if old.describes(l.UID, l.Generation) {
			l.Diagnosis = old.Diagnosis
		}
	}
	return o.Set(id, l)
}

// Diagnose replaces the diagnosis of an object by the one that next returns for it; nil removes it.
// It changes nothing, and returns false, if the object has another UID or generation, needs no
// diagnosis any more, or the diagnosis is the same.
func (o Observed) Diagnose(id, uid string, generation int64, next func(old *Diagnosis) *Diagnosis) (changed bool, err error) {
	l, err := o.Get(id)
	if err != nil || !l.describes(uid, generation) || !l.IsSuspect {
		return false, err
	}
	now := next(l.Diagnosis)
	if now == l.Diagnosis || now != nil && l.Diagnosis != nil && *now == *l.Diagnosis {
		return false, nil
	}
	l.Diagnosis = now
	return true, o.Set(id, l)
}
