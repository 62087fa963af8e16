package env

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// records are the keys and values of a cluster's etcd.
type records map[string][]byte

const (
	registry    = "/registry/"
	registryEnd = "/registry0" // the first key after those that begin with registry
	// nodeRecords begins the keys of Nodes, whose status is written while nothing changes; see nodes.
	nodeRecords = registry + "minions/"
	// maxBatch and maxBatchBytes bound one transaction; etcd allows 128 keys and 1.5 MiB.
	maxBatch, maxBatchBytes = 100, 1 << 20
)

// restlessRecords begin the keys that the parts of a cluster write while nothing changes.
var restlessRecords = []string{registry + "leases/kube-", registry + "masterleases/", registry + "peerserverleases/", registry + "events/"}

// readRecords reads what a cluster's etcd has, without restlessRecords.
func readRecords(ctx context.Context, url string) (records, error) {
	body, err := askEtcd(ctx, url+"/v3/kv/range", map[string][]byte{"key": []byte(registry), "range_end": []byte(registryEnd)})
	if err != nil {
		return nil, err
	}
	var answer struct {
		KVs []struct {
			Key   []byte `json:"key"`
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := errors.Join(json.NewDecoder(body).Decode(&answer), body.Close()); err != nil {
		return nil, err
	}
	all := records{}
	for _, kv := range answer.KVs {
		key := string(kv.Key)
		if !slices.ContainsFunc(restlessRecords, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			all[key] = kv.Value
		}
	}
	return all, nil
}

// restore makes a cluster's etcd have these records and no others. The API server takes the writes
// for changes by another API server.
func (r records) restore(ctx context.Context, url string) error {
	now, err := readRecords(ctx, url)
	if err != nil {
		return err
	}
	var some transaction
	for key, value := range r {
		old, isThere := now[key]
		if !isThere || !bytes.Equal(old, value) && !strings.HasPrefix(key, nodeRecords) {
			change := map[string]any{"requestPut": map[string][]byte{"key": []byte(key), "value": value}}
			if err := some.add(ctx, url, change, len(key)+len(value)); err != nil {
				return err
			}
		}
	}
	for key := range now {
		if _, wanted := r[key]; !wanted {
			change := map[string]any{"requestDeleteRange": map[string][]byte{"key": []byte(key)}}
			if err := some.add(ctx, url, change, len(key)); err != nil {
				return err
			}
		}
	}
	return some.write(ctx, url)
}

// transaction collects changes of an etcd.
type transaction struct {
	changes []any
	bytes   int
}

// add adds a change of some bytes. It first writes the changes before it if all together were too much.
func (x *transaction) add(ctx context.Context, url string, change any, bytes int) error {
	if len(x.changes) == maxBatch || x.bytes+bytes > maxBatchBytes {
		if err := x.write(ctx, url); err != nil {
			return err
		}
	}
	x.changes, x.bytes = append(x.changes, change), x.bytes+bytes
	return nil
}

func (x *transaction) write(ctx context.Context, url string) error {
	if len(x.changes) == 0 {
		return nil
	}
	body, err := askEtcd(ctx, url+"/v3/kv/txn", map[string]any{"success": x.changes})
	x.changes, x.bytes = nil, 0
	if err != nil {
		return err
	}
	return body.Close()
}

// inventory is what an API server shows: its resources, the objects of each, and its schemas.
type inventory map[string]bool

// restlessKinds have objects that come and go while nothing changes, or that no etcd has.
var restlessKinds = []string{"Event", "Lease", "ComponentStatus"}

// readInventory lists everything, each list as new as etcd.
func readInventory(ctx context.Context, config *rest.Config) (inventory, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{} // it lists deprecated kinds, too
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	all := inventory{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			all[fmt.Sprint("resource ", list.GroupVersion, " ", r.String())] = true
			if !slices.Contains(r.Verbs, "list") || slices.Contains(restlessKinds, r.Kind) {
				continue
			}
			if err := all.list(ctx, objects.Resource(gv.WithResource(r.Name)), gv.String()+" "+r.Name); err != nil {
				return nil, err
			}
		}
	}
	return all, all.schemas(ctx, client.RESTClient())
}

// list adds the objects of a resource.
func (i inventory) list(ctx context.Context, r metadata.ResourceInterface, resource string) error {
	list, err := r.List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", resource, err)
	}
	for _, o := range list.Items {
		i[fmt.Sprintf("%s %s/%s with UID %s", resource, o.Namespace, o.Name, o.UID)] = true
	}
	return nil
}

// schemas adds the paths of the OpenAPI documents, each of which has a hash.
func (i inventory) schemas(ctx context.Context, client rest.Interface) error {
	body, err := client.Get().AbsPath("/openapi/v3").Do(ctx).Raw()
	if err != nil {
		return err
	}
	var root struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(body, &root); err != nil {
		return err
	}
	for _, path := range root.Paths {
		i["schema "+path.URL] = true
	}
	return nil
}

// differs returns an error that names the first differences, if there are any.
func (i inventory) differs(now inventory) error {
	var all []error
	for _, o := range slices.Sorted(maps.Keys(i)) {
		if !now[o] {
			all = append(all, fmt.Errorf("it lacks %s", o))
		}
	}
	for _, o := range slices.Sorted(maps.Keys(now)) {
		if !i[o] {
			all = append(all, fmt.Errorf("it still has %s", o))
		}
	}
	return errors.Join(all[:min(len(all), shownTexts)]...)
}
