package env

import (
	"context"
	"maps"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// nodes has the parts of each Node that decide where Pods go. Tests may change them, and they cannot be
// written to etcd like other records: the status in the same record changes all the time.
type nodes map[string]nodeState

type nodeState struct {
	labels        map[string]string
	taints        []corev1.Taint
	unschedulable bool
}

func stateOf(node *corev1.Node) nodeState {
	return nodeState{node.Labels, node.Spec.Taints, node.Spec.Unschedulable}
}

func (s nodeState) equal(other nodeState) bool {
	return maps.Equal(s.labels, other.labels) && s.unschedulable == other.unschedulable &&
		(len(s.taints)+len(other.taints) == 0 || reflect.DeepEqual(s.taints, other.taints))
}

func readNodes(ctx context.Context, client kubernetes.Interface) (nodes, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := nodes{}
	for i := range list.Items {
		all[list.Items[i].Name] = stateOf(&list.Items[i])
	}
	return all, nil
}

// restore undoes changes of the Nodes. Nodes that are gone, or that are not of the new cluster, are records.
func (n nodes) restore(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		node := &list.Items[i]
		state, isKnown := n[node.Name]
		if !isKnown || state.equal(stateOf(node)) {
			continue
		}
		node.Labels, node.Spec.Taints, node.Spec.Unschedulable = maps.Clone(state.labels), state.taints, state.unschedulable
		if _, err := client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
