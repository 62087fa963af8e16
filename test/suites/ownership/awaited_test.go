package ownership

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"orrery.dev/orrery/test/support/env"
)

// awaited: an object that something at the cluster keeps is shown as being removed until
// that lets it go, and kubectl, which waits for its deletion in the space, waits for that.
func (s *suite) awaited() {
	s.namespace("awaited")
	s.place("awaited", ", waitForRemoval: true", "")
	s.write(configMap("awaited", "one", "first"))
	const object = "core/configmaps/awaited/one"
	s.reports(object, "Applied", "")
	s.there("patch", "configmap", "one", "-n", "awaited", "--type=merge", "-p", `{"metadata":{"finalizers":["example.com/keeps"]}}`)
	type result struct {
		out string
		err error
	}
	deleted := make(chan result, 1)
	go func() {
		out, err := env.TryKubectl(s, s.kubeconfig, "delete", "configmap", "one", "-n", "awaited", "--wait", "--timeout=10m")
		deleted <- result{out, err}
	}()
	s.reports(object, "Removing", "Terminating")
	status := env.Command{Binary: "orrery", Args: []string{"status", "configmap/one", "-n", "awaited"}, Kubeconfig: s.kubeconfig}
	if out, err := status.Try(s); err != nil || !strings.Contains(out, "Removing") || !strings.Contains(out, "deleted: Terminating") {
		s.Errorf("orrery status says\n%s%v", out, err)
	}
	env.Throughout(s, 2*time.Second, func() error {
		select {
		case r := <-deleted:
			return fmt.Errorf("kubectl does not wait: %s%v", r.out, r.err) //nolint:errorlint // whatever ended it
		default:
			return nil
		}
	})
	s.there("patch", "configmap", "one", "-n", "awaited", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if r := <-deleted; r.err != nil {
		s.Fatalf("kubectl delete: %s%v", r.out, r.err)
	}
	if out := s.there("get", "configmap", "one", "-n", "awaited", "--ignore-not-found", "-o", "name"); out != "" {
		s.Errorf("kubectl says that it is gone, and the cluster has %s", out)
	}
	s.unplace("awaited")
	s.afterFinalizers()
}

// afterFinalizers: an object that a finalizer keeps in the space stays in the cluster, with its changes, until the
// finalizer is removed.
func (s *suite) afterFinalizers() {
	s.place("awaited", ", onRemove: AfterFinalizers, waitForRemoval: true", "")
	s.write(configMap("awaited", "two", "first"))
	const object = "core/configmaps/awaited/two"
	s.reports(object, "Applied", "")
	patch := func(body string) {
		s.Helper()
		env.Kubectl(s, s.kubeconfig, "patch", "configmap", "two", "-n", "awaited", "--type=merge", "-p", body)
	}
	patch(`{"metadata":{"finalizers":["example.com/controller"]}}`)
	env.Kubectl(s, s.kubeconfig, "delete", "configmap", "two", "-n", "awaited", "--wait=false")
	patch(`{"metadata":{"labels":{"changed":"since"}}}`)
	s.eventually("the cluster has the change of the deleted object", func() error {
		if out := s.there("get", "configmap", "two", "-n", "awaited", "-o", "jsonpath={.metadata.deletionTimestamp}{.metadata.labels.changed}"); out != "since" {
			return errors.New(out)
		}
		return nil
	})
	patch(`{"metadata":{"finalizers":["orrery.dev/removal"]}}`)
	s.eventually("the object is gone", func() error {
		out := env.Kubectl(s, s.kubeconfig, "get", "configmap", "two", "-n", "awaited", "--ignore-not-found", "-o", "name")
		if out += s.there("get", "configmap", "two", "-n", "awaited", "--ignore-not-found", "-o", "name"); out != "" {
			return errors.New(out)
		}
		return nil
	})
	s.unplace("awaited")
}
