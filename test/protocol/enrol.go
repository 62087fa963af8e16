package protocol

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"

	"orrery.dev/orrery/apis/v1alpha1"
	"orrery.dev/orrery/internal/key"
	"orrery.dev/orrery/internal/route"
	"orrery.dev/orrery/internal/wire"
)

// Enrol makes a token for the agent of a location, as the operator whose configuration
// reaches the hub. The token before is replaced.
func Enrol(ctx context.Context, hub *rest.Config, location string) (join wire.Join, err error) {
	fail := func(err error) (wire.Join, error) { return join, fmt.Errorf("make a token for %q: %w", location, err) }
	client, err := rest.HTTPClientFor(hub)
	if err != nil {
		return fail(err)
	}
	path := route.Space(key.Root).Path("apis/" + v1alpha1.Group + "/" + v1alpha1.Version + "/locations/" + location + "/token")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(hub.Host, "/")+path, http.NoBody)
	if err != nil {
		return fail(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	var made v1alpha1.LocationToken
	if err == nil {
		err = json.Unmarshal(body, &made)
	}
	if err != nil {
		return fail(err)
	}
	return wire.ParseJoin(made.Status.Token)
}
