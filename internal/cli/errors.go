package cli

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf("%v: another process listens there; choose another address with --listen", err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the hub does not accept the kubeconfig's credentials: %v: is it the kubeconfig of another hub, or of one that was set up anew?", err)
	case errors.As(err, &refused) && errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("no hub answers at %s: is it running?", hostOf(refused.URL))
	}
	return strings.Join(strings.Split(strings.TrimSpace(err.Error()), "\n"), "; ")
}

func hostOf(request string) string {
	u, err := url.Parse(request)
	if err != nil {
		return request
	}
	return u.Scheme + "://" + u.Host
}
