package enroll

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// formerFile has the certificates of authorities that were replaced, without keys: what
	// they have signed is good for nothing but a renewal, and for a while.
	formerFile = "ca.former"
	// maxFormer is how many of them are kept.
	maxFormer = 8
	// droppedHeader is when one was dropped, in the header of its PEM block.
	droppedHeader = "Dropped"
)

// former is an authority that was trusted, and when it was dropped.
type former struct {
	cert    *x509.Certificate
	dropped time.Time
}

// writeOfFormer adds an authority to those that were replaced.
func (h *held) writeOfFormer(cert *x509.Certificate, now time.Time) write {
	all := []former{{cert, now}}
	for _, one := range h.former {
		if len(all) < maxFormer && !one.cert.Equal(cert) { // a crash may have left it there
			all = append(all, one)
		}
	}
	var text []byte
	for _, one := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Headers: map[string]string{droppedHeader: one.dropped.UTC().Format(time.RFC3339)}, Bytes: one.cert.Raw,
		})...)
	}
	return write{formerFile, text, 0o644}
}

// readFormer reads the authorities that were replaced; without a file there are none.
func readFormer(dir string) (all []former, err error) {
	text, err := os.ReadFile(filepath.Join(dir, formerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the former certificate authorities: %w", err)
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse the former certificate authorities: %w", err)
		}
		dropped, err := time.Parse(time.RFC3339, block.Headers[droppedHeader])
		if err != nil {
			return nil, fmt.Errorf("parse the former certificate authorities: %w", err)
		}
		all = append(all, former{cert, dropped})
	}
	return all, nil
}
