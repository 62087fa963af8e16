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

// Rotation is how far an authority is on its way to another one.
type Rotation string

const (
	// Settled: there is one authority.
	Settled Rotation = "settled"
	// Announced: the next one is trusted, too, and does not sign yet.
	Announced Rotation = "announced"
	// Switched: the next one signs, and the one before is still trusted.
	Switched Rotation = "switched"
)

// Step is a step of a rotation. Each is one change of what is trusted and what signs,
// which a hub that runs takes over; what a crash leaves behind is whole.
type Step string

const (
	// Announce makes the next authority.
	Announce Step = "start"
	// Switch has the next one sign.
	Switch Step = "switch"
	// Finish ends the trust in the one before.
	Finish Step = "finish"
	// Undo takes back Announce, or Switch.
	Undo Step = "undo"
)

// rotation is how far the files are.
func (h *held) rotation() Rotation {
	switch {
	case len(h.certs) == 1:
		return Settled
	case h.newest() == 0:
		return Switched
	default:
		return Announced
	}
}

// newest is the index of the certificate whose key was made last.
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

// RotationOf is how far the authority of a directory is.
func RotationOf(dir string) (Rotation, error) {
	h, err := read(dir)
	if err != nil {
		return "", err
	}
	return h.rotation(), nil
}

// Rotate takes a step with the authority of a directory, and returns how far it is then.
// It fails if that is not the next step. One caller at a time takes a step.
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
	case step == Announce && is == Settled:
		return h.announce(now)
	case step == Switch && is == Announced, step == Undo && is == Switched:
		return h.swap()
	case step == Finish && is == Switched, step == Undo && is == Announced:
		return h.settle(now)
	}
	return nil, fmt.Errorf("the certificate authority is %s: %q is not the next step", is, step)
}

// announce adds an authority. Its key is there before its certificate is; keys without a
// certificate, which a crash has left, go. It is valid from when the one before was, so
// that those whose clocks are behind this one accept it, too.
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

// swap has the other authority sign.
func (h *held) swap() ([]write, error) {
	if h.keyOf(h.certs[1]) == nil {
		return nil, errors.New("ca.key has no key of the other certificate authority")
	}
	return []write{writeOfCerts(h.certs[1], h.certs[0])}, nil
}

// settle leaves the authority that signs alone. What the other has signed is known to be
// of a former one before it is trusted no more.
func (h *held) settle(now time.Time) ([]write, error) {
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
