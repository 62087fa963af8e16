package store

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

// Diagnosis returns the diagnosis of an object, nil if it has none. ok is false if the object has
// another UID or generation, or needs no diagnosis any more.
func (o Observed) Diagnosis(id, uid string, generation int64) (d *Diagnosis, ok bool, err error) {
	l, err := o.Get(id)
	if err != nil || !l.describes(uid, generation) || !l.IsSuspect {
		return nil, false, err
	}
	return l.Diagnosis, true, nil
}

// Diagnose replaces the diagnosis of an object; nil removes it. It changes nothing if the object has
// another UID or generation, or needs no diagnosis any more.
func (o Observed) Diagnose(id, uid string, generation int64, d *Diagnosis) error {
	l, err := o.Get(id)
	if err != nil || !l.describes(uid, generation) || !l.IsSuspect {
		return err
	}
	l.Diagnosis = d
	return o.Set(id, l)
}
