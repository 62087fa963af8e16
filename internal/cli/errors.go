package cli

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/protocol/key"
)

// errNo is returned for a negative result, which has been printed.
var errNo = errors.New("no")

// usageError is returned for wrong arguments or flags.
type usageError struct{ command, problem string }

func (e usageError) Error() string { return e.problem }

func badUsage(cmd *cobra.Command, format string, args ...any) error {
	return usageError{cmd.CommandPath(), fmt.Sprintf(format, args...)}
}

// describe formats an error as one line, with a hint if there is one.
func describe(err error) string {
	var refused *url.Error
	var certificate *tls.CertificateVerificationError
	var name *net.DNSError
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%v: another process listens there; choose another address with --listen", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the hub does not accept the kubeconfig's credentials: %v: is it the kubeconfig of another hub, or of one that was set up anew?", err)
	case errors.As(err, &refused) && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no hub answers at %s: is it running?", hostOf(refused.URL))
	case errors.As(err, &refused) && errors.As(err, &certificate):
		return fmt.Sprintf("the kubeconfig does not trust the certificate of %s: %v: is it the kubeconfig of another hub, or of one that was set up anew?", hostOf(refused.URL), certificate.Err)
	case errors.As(err, &refused) && errors.As(err, &name) && name.IsNotFound:
		return fmt.Sprintf("the host %q of the kubeconfig's server has no address: check the server in the kubeconfig, and the DNS of this machine", name.Name)
	}
	return asLine(err) + nextOf(err)
}

// nextOf returns what to do about an error, as the end of its message; empty if there is nothing special.
func nextOf(err error) string {
	switch status := apierrors.APIStatus(nil); {
	case errors.As(err, &status):
		return nextOfStatus(status.Status())
	case clientcmd.IsContextNotFound(err):
		return "; see: kubectl config get-contexts"
	}
	return ""
}

// nextOfStatus is nextOf for a response of the hub.
func nextOfStatus(s metav1.Status) string {
	if s.Details == nil || s.Details.Group != v1alpha1.GroupVersion.Group || strings.HasSuffix(s.Message, "?") {
		return "" // or the message suggests something itself
	}
	switch kind := s.Details.Kind; s.Reason {
	case metav1.StatusReasonNotFound:
		switch kind {
		case key.Spaces.Resource:
			return "; see: orrery space list"
		case key.Locations.Resource:
			return "; see: orrery location list"
		case key.Placements.Resource:
			return "; see: orrery status"
		}
	case metav1.StatusReasonAlreadyExists:
		if kind == key.Locations.Resource {
			return "; for a new agent: orrery location token " + s.Details.Name
		}
	}
	return ""
}

// asLine formats an error as one line.
func asLine(err error) string {
	return strings.Join(strings.Split(strings.TrimSpace(err.Error()), "\n"), "; ")
}

func hostOf(request string) string {
	u, err := url.Parse(request)
	if err != nil {
		return request
	}
	return u.Scheme + "://" + u.Host
}
