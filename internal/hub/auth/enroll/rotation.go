package enroll

import (
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// Rotation is the state of the replacement of an authority.
type Rotation string

const (
	// Stable: there is one authority.
	Stable Rotation = "settled"
	// Announced: the next authority is trusted, too, and does not sign yet.
	Announced Rotation = "announced"
	// Switched: the next authority signs, and the previous one is still trusted.
	Switched Rotation = "switched"
)

// Step is a step of a rotation. Each step changes either the trusted authorities or the signing
// one, and a running hub applies it. The files are consistent after a crash.
type Step string

const (
	// Announce creates the next authority.
	Announce Step = "start"
	// Switch makes the next authority sign.
	Switch Step = "switch"
	// Finish ends the trust in the previous authority.
	Finish Step = "finish"
	// Undo reverts Announce or Switch.
	Undo Step = "undo"
)

// rotation returns the state of the files.
func (h *held) rotation() Rotation {
	switch {
	case len(h.certs) == 1:
		return Stable
	case h.newest() == 0:
		return Switched
	default:
		return Announced
	}
}

// newest returns the index of the certificate whose key is the newest.
func (h *held) newest() int {
	for _, key := range slices.Backward(h.keys) {
		for i, cert := range h.certs {
			if key.PublicKey.Equal(cert.PublicKey) {
				return i
			}
		}
	}
	return 0
}

// RotationOf returns the state of the authority in a directory.
func RotationOf(dir string) (Rotation, error) {
	h, err := read(dir)
	if err != nil {
		return "", err
	}
	return h.rotation(), nil
}

// Rotate performs a step with the authority of a directory, and returns the new state. It fails if
// the step is not the next one. A lock serializes callers.
func Rotate(dir string, step Step, now time.Time) (Rotation, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return "", fmt.Errorf("open the data directory: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the data directory: %w", err)
	}
	h, err := read(dir)
	if err != nil {
		return "", err
	}
	writes, err := h.writesOf(step, now)
	if err != nil {
		return "", err
	}
	for _, w := range writes {
		if err := w.to(dir); err != nil {
			return "", err
		}
	}
	return RotationOf(dir)
}

// writesOf returns the files that a step writes, in their order. A hub may read the files between two writes.
func (h *held) writesOf(step Step, now time.Time) ([]write, error) {
	is := h.rotation()
	switch {
	case step == Announce && is == Stable:
		return h.announce(now)
	case step == Switch && is == Announced, step == Undo && is == Switched:
		return h.swap()
	case step == Finish && is == Switched, step == Undo && is == Announced:
		return h.dropOther(now)
	}
	return nil, fmt.Errorf("the certificate authority is %s: %q is not the next step", is, step)
}

// announce adds an authority. Its key is written before its certificate; keys without a
// certificate, which remain from a crash, are removed. It is valid from the begin of the previous
// one, so that clients with slow clocks accept it, too.
func (h *held) announce(now time.Time) ([]write, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, err := certOf(key, now, h.certs[0].NotBefore)
	if err != nil {
		return nil, err
	}
	keys, err := writeOfKeys(h.key, key)
	return []write{keys, writeOfCerts(h.certs[0], cert)}, err
}

// swap makes the other authority sign.
func (h *held) swap() ([]write, error) {
	if h.keyOf(h.certs[1]) == nil {
		return nil, errors.New("ca.key has no key of the other certificate authority")
	}
	return []write{writeOfCerts(h.certs[1], h.certs[0])}, nil
}

// dropOther keeps only the signing authority. The other one is recorded as former before it is no
// longer trusted.
func (h *held) dropOther(now time.Time) ([]write, error) {
	keys, err := writeOfKeys(h.key)
	return []write{h.writeOfFormer(h.certs[1], now), writeOfCerts(h.certs[0]), keys}, err
}

// toward returns what a hub that has h takes over next if the files have next. A hub can miss steps of a
// rotation that follow each other fast. It makes up for them, one at a time: what clients were given before the
// last change is good after it. So the next authority is trusted before it signs, and it signs before the one
// before is no longer trusted.
func (h *held) toward(next *held) *held {
	certs := slices.Clone(h.certs)
	for _, cert := range next.certs {
		if !slices.ContainsFunc(certs, cert.Equal) {
			certs = append(certs, cert)
		}
	}
	signer, key := h.certs[0], h.key
	isKnown := slices.ContainsFunc(h.certs, next.certs[0].Equal)
	switch {
	case signer.Equal(next.certs[0]), isKnown && len(certs) == len(next.certs):
		return next
	case isKnown:
		signer, key = next.certs[0], next.key
	}
	certs = append([]*x509.Certificate{signer}, slices.DeleteFunc(certs, signer.Equal)...)
	return newHeld(certs, key, next.former)
}
