package agent_test

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery.dev/orrery/internal/protocol/wire"
	"orrery.dev/orrery/test/support/env"
)

// provided places objects that a cluster makes itself in every namespace, after the cluster has made them. They are adopted,
// and stay when they are no longer desired. Another ServiceAccount is in conflict.
func provided(s *site) {
	t := s.t
	accounts, maps := s.client.CoreV1().ServiceAccounts(s.name), s.client.CoreV1().ConfigMaps(s.name)
	_, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
	for _, name := range []string{"default", "another"} {
		_, failed := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		err = errors.Join(err, failed)
	}
	_, failed := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": "c"}}, metav1.CreateOptions{})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	account := func(name string) (key string) {
		key = "team/core/serviceaccounts/" + s.name + "/" + name
		s.hub.Put(key, "uid-"+name, fmt.Sprintf(`{"apiVersion":"v1","imagePullSecrets":[{"name":"pull"}],"kind":"ServiceAccount","metadata":{"name":%q,"namespace":%q}}`, name, s.name))
		return key
	}
	bundle := "team/core/configmaps/" + s.name + "/kube-root-ca.crt"
	s.hub.Put(bundle, "uid-c", fmt.Sprintf(`{"apiVersion":"v1","data":{"ca.crt":"c"},"kind":"ConfigMap","metadata":{"name":"kube-root-ca.crt","namespace":%q}}`, s.name))
	made, another := account("default"), account("another")
	s.start()
	s.reports(made, wire.Applied, "")
	s.reports(bundle, wire.Applied, "")
	s.reports(another, wire.InConflict, "Exists")
	before, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil || len(before.ImagePullSecrets) != 1 || before.Labels[label] == "" {
		t.Fatalf("%+v: %v", before, err)
	}
	s.hub.Del(made, wire.Deleted)
	s.hub.Del(bundle, wire.Deleted)
	env.Eventually(t, soon, func() error {
		after, err := accounts.Get(t.Context(), "default", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ca, err := maps.Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if after.UID != before.UID {
			t.Fatal("the ServiceAccount was made anew")
		}
		if after.Labels[label] != "" || ca.Labels[label] != "" {
			return fmt.Errorf("the labels are %v and %v", after.Labels, ca.Labels)
		}
		return nil
	})
}
