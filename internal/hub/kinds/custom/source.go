package custom

import (
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// source is the CRD that artefacts are made of. As Go values it takes much memory, so it is kept
// only while several artefacts are made at once. It is safe for concurrent use.
type source struct {
	// unpack makes the CRD.
	unpack func() (*apiextensionsv1.CustomResourceDefinition, error)

	mu      sync.Mutex
	holders int
	crd     *apiextensionsv1.CustomResourceDefinition
}

// hold keeps the CRD, once it is made, until all holders have released it.
func (s *source) hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.holders--; s.holders == 0 {
			s.crd = nil
		}
	}
}

// get returns the CRD. The caller must not change it.
func (s *source) get() (*apiextensionsv1.CustomResourceDefinition, error) {
	s.mu.Lock()
	crd := s.crd
	s.mu.Unlock()
	if crd != nil {
		return crd, nil
	}
	crd, err := s.unpack()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders > 0 {
		s.crd = crd
	}
	return crd, nil
}
