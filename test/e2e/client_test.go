package e2e

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// nopNegotiated is for requests whose bodies the test reads itself.
func nopNegotiated() runtime.NegotiatedSerializer { return scheme.Codecs.WithoutConversion() }
