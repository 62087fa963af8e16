package clients

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"orrery.dev/orrery/test/support/env"
)

const (
	finalizer  = "shop.example/page"
	byProduct  = "spec.product"
	leaderName = "campaigns"
)

// TestControllerRuntime shows that an operator made with controller-runtime reconciles a
// kind that a CRD defines, with status, events, finalizers, an index and metadata of what
// it owns. Of two operators only the one that holds the lease works, and the other takes
// over when it stops.
func TestControllerRuntime(t *testing.T) {
	s := newSpace(t)
	s.apply(t, campaigns)
	ctrl.SetLogger(logr.Discard())
	first, second := newOperator(t, s, "first"), newOperator(t, s, "second")
	stopFirst := first.start(t)
	first.elected(t)
	second.start(t)

	c, reader := first.manager.GetClient(), first.manager.GetAPIReader()
	spring := newCampaign("spring")
	create(t, c, spring)
	first.reconciled(t, spring, "first")
	s.eventsOf(t, "spring", "PageWritten")

	t.Run("what it owns is made again", func(t *testing.T) {
		page := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "spring", Namespace: "default"}}
		if err := c.Delete(t.Context(), &page); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, soon, func() error { return get(t, reader, &corev1.ConfigMap{}, "spring") })
	})
	t.Run("a change of the spec is reconciled", func(t *testing.T) {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"product":"microscope"}}`))
		if err := c.Patch(t.Context(), spring, patch); err != nil {
			t.Fatal(err)
		}
		if spring.Generation != 2 {
			t.Errorf("the generation is %d, want 2", spring.Generation)
		}
		first.reconciled(t, spring, "first")
		var found CampaignList
		if err := c.List(t.Context(), &found, client.MatchingFields{byProduct: "microscope"}); err != nil {
			t.Fatal(err)
		}
		if len(found.Items) != 1 {
			t.Errorf("the index has %d of them, want 1", len(found.Items))
		}
		var live CampaignList
		if err := reader.List(t.Context(), &live, client.MatchingFields{byProduct: "telescope"}); err != nil {
			t.Fatal(err)
		}
		if len(live.Items) != 0 {
			t.Errorf("the space selects %d by the old field, want none", len(live.Items))
		}
	})
	t.Run("a finalizer is waited for", func(t *testing.T) {
		if err := c.Delete(t.Context(), spring); err != nil {
			t.Fatal(err)
		}
		env.Eventually(t, soon, func() error { return gone(get(t, reader, &Campaign{}, "spring")) })
		if err := gone(get(t, reader, &corev1.ConfigMap{}, "spring")); err != nil {
			t.Error(err)
		}
	})
	t.Run("the other one takes over", func(t *testing.T) {
		select {
		case <-second.manager.Elected():
			t.Fatal("two lead at once")
		default:
		}
		stopFirst()
		second.elected(t)
		autumn := newCampaign("autumn")
		create(t, second.manager.GetClient(), autumn)
		second.reconciled(t, autumn, "second")
	})
}

// operator keeps a ConfigMap for each campaign.
type operator struct {
	name     string
	space    *space
	manager  ctrl.Manager
	recorder events.EventRecorder
}

func newOperator(t *testing.T, s *space, name string) *operator {
	t.Helper()
	m, err := ctrl.NewManager(s.config(), ctrl.Options{
		Scheme:         operatorScheme(t),
		LeaderElection: true, LeaderElectionID: leaderName, LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true,
		// On a busy machine, a leader may pause for longer than the default lease duration.
		LeaseDuration: new(5 * time.Minute), RenewDeadline: new(4 * time.Minute),
		// The cache holds only the metadata of ConfigMaps; their data is read from the space.
		Client:     client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.ConfigMap{}}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{name: name, space: s, manager: m, recorder: m.GetEventRecorder("campaigns")}
	err = m.GetFieldIndexer().IndexField(t.Context(), &Campaign{}, byProduct, func(o client.Object) []string {
		return []string{o.(*Campaign).Spec.Product}
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(m).For(&Campaign{}).Owns(&corev1.ConfigMap{}, builder.OnlyMetadata).Complete(o)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func operatorScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	addCampaigns(scheme)
	return scheme
}

// start runs the manager until stop is called or the test ends.
func (o *operator) start(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- o.manager.Start(ctx) }()
	stopped := false
	stop = func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		if err := <-done; err != nil {
			t.Errorf("operator %s: %v", o.name, err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func (o *operator) elected(t *testing.T) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		select {
		case <-o.manager.Elected():
			return nil
		default:
			return fmt.Errorf("operator %s is not elected", o.name)
		}
	})
}

// reconciled waits until the status of a campaign is that of its spec.
func (o *operator) reconciled(t *testing.T, want *Campaign, reconciler string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		var got Campaign
		if err := o.manager.GetAPIReader().Get(t.Context(), client.ObjectKeyFromObject(want), &got); err != nil {
			return err
		}
		if page := reconciler + ": " + want.Spec.Product; got.Status.Page != page || got.Status.ObservedGeneration != got.Generation {
			return fmt.Errorf("the status is %+v at generation %d, want page %q", got.Status, got.Generation, page)
		}
		return nil
	})
}

// Reconcile writes the page of a campaign, and reports it in the status.
func (o *operator) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	c := o.manager.GetClient()
	var campaign Campaign
	if err := c.Get(ctx, r.NamespacedName, &campaign); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: campaign.Name, Namespace: campaign.Namespace}}
	if !campaign.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(c.Delete(ctx, page)); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&campaign, finalizer)
		return ctrl.Result{}, client.IgnoreNotFound(c.Update(ctx, &campaign))
	}
	if controllerutil.AddFinalizer(&campaign, finalizer) {
		return ctrl.Result{}, c.Update(ctx, &campaign) // its event brings it back
	}
	text := o.name + ": " + campaign.Spec.Product
	if _, err := controllerutil.CreateOrUpdate(ctx, c, page, func() error {
		page.Data = map[string]string{"page": text}
		return controllerutil.SetControllerReference(&campaign, page, c.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	campaign.Status.Page, campaign.Status.ObservedGeneration = text, campaign.Generation
	if err := c.Status().Update(ctx, &campaign); err != nil {
		return ctrl.Result{}, err
	}
	o.recorder.Eventf(&campaign, page, corev1.EventTypeNormal, "PageWritten", "Write", "page of %s", campaign.Spec.Product)
	return ctrl.Result{}, nil
}

func newCampaign(name string) *Campaign {
	c := &Campaign{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	c.Spec.Product = "telescope"
	return c
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// get reads an object in namespace default.
func get(t *testing.T, c client.Reader, o client.Object, name string) error {
	t.Helper()
	return c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, o)
}

// gone turns NotFound into success.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("it is still there"), err)
}

// eventsOf waits until kubectl describe shows an event of a campaign.
func (s *space) eventsOf(t *testing.T, name, reason string) {
	t.Helper()
	env.Eventually(t, soon, func() error {
		out, err := env.TryKubectl(t, s.kubeconfig, "describe", "campaign", name)
		if err != nil {
			return err
		}
		if !strings.Contains(out, reason) {
			return fmt.Errorf("no event %s in\n%s", reason, out)
		}
		return nil
	})
}
