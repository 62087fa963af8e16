package builtin

import (
	"errors"
	"fmt"
	"sync"

	"github.com/tidwall/gjson"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	clientschema "k8s.io/client-go/applyconfigurations"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationschema "k8s.io/kube-aggregator/pkg/client/applyconfiguration"
	"k8s.io/kube-openapi/pkg/spec3"

	"orrery.dev/orrery/internal/hub/kinds/downsync"
	"orrery.dev/orrery/internal/hub/kinds/openapi"
	"orrery.dev/orrery/internal/hub/kinds/protobuf"
)

// machinery is what all built-in kinds share.
type machinery struct {
	scheme  *runtime.Scheme
	codecs  runtime.NegotiatedSerializer
	storage func(schema.GroupVersion) runtime.Codec
	// schemas has a schema for server-side apply per group; "*" is for the rest.
	schemas map[string]managedfields.TypeConverter
	travels downsync.Types
	// transcoders are shared by kinds that have types in common.
	transcoders *protobuf.Types
}

// sharedMachinery is made once in a process: it takes long, and no caller changes it.
var sharedMachinery = sync.OnceValues(newMachinery)

func newMachinery() (machinery, error) {
	scheme, err := newScheme()
	if err != nil {
		return machinery{}, err
	}
	definitions, err := documentedSchema(apiextensionsv1.SchemeGroupVersion)
	if err != nil {
		return machinery{}, err
	}
	codecs := serializer.NewCodecFactory(scheme,
		serializer.WithStreamingCollectionEncodingToJSON(),
		serializer.WithStreamingCollectionEncodingToProtobuf())
	stored := json.NewSerializerWithOptions(storedMeta{}, scheme, scheme, json.SerializerOptions{})
	return machinery{
		scheme:  scheme,
		travels: downsync.Types{},
		codecs:  codecs,

		transcoders: &protobuf.Types{},
		storage: func(gv schema.GroupVersion) runtime.Codec {
			return codecs.CodecForVersions(stored, stored, gv, gv)
		},
		schemas: map[string]managedfields.TypeConverter{
			apiextensionsv1.GroupName:   definitions,
			apiregistrationv1.GroupName: apiregistrationschema.NewTypeConverter(scheme),
			"*":                         clientschema.NewTypeConverter(scheme),
		},
	}, nil
}

// storedMeta finds the kind of a stored value where it is, at the beginning.
// json.DefaultMetaFactory parses all of the value for it, twice, which is as much
// work as decoding it is afterwards. That also finds what is wrong with a value.
type storedMeta struct{}

func (storedMeta) Interpret(value []byte) (*schema.GroupVersionKind, error) {
	found := gjson.GetManyBytes(value, "apiVersion", "kind")
	for _, f := range found {
		if f.Type != gjson.String && f.Type != gjson.Null { // which is what is missing, too
			return nil, fmt.Errorf("read the kind of a stored value: %s is not a string", f.Raw)
		}
	}
	gv, err := schema.ParseGroupVersion(found[0].Str)
	if err != nil {
		return nil, fmt.Errorf("read the kind of a stored value: %w", err)
	}
	gvk := gv.WithKind(found[1].Str)
	return &gvk, nil
}

// documentedSchema makes a schema of an OpenAPI document: apiextensions, other
// than the rest, has none for its own kind among its apply configurations.
func documentedSchema(gv schema.GroupVersion) (managedfields.TypeConverter, error) {
	documents, err := openapi.Builtin()
	if err != nil {
		return nil, err
	}
	data, err := openapi.Unpack(documents.V3[openapi.Root(gv)].Packed)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gv, err)
	}
	var document spec3.OpenAPI
	if err := document.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gv, err)
	}
	converter, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		return nil, fmt.Errorf("read the schema of %s: %w", gv, err)
	}
	return converter, nil
}

func (m machinery) schemaOf(group string) managedfields.TypeConverter {
	if s, ok := m.schemas[group]; ok {
		return s
	}
	return m.schemas["*"]
}

// newScheme registers the types of all built-in kinds, and no defaults: what a
// user left out stays out.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, admissionregistrationv1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme,
		autoscalingv2.AddToScheme, batchv1.AddToScheme, certificatesv1.AddToScheme, coordinationv1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, flowcontrolv1.AddToScheme, networkingv1.AddToScheme,
		nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, resourcev1.AddToScheme,
		schedulingv1.AddToScheme, storagev1.AddToScheme,
		addDefinitions, addConversions, addFieldLabels,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register built-in types: %w", err)
		}
	}
	return scheme, nil
}

// addDefinitions registers types whose own packages would bring defaults along.
func addDefinitions(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(apiextensionsv1.SchemeGroupVersion,
		&apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinitionList{})
	metav1.AddToGroupVersion(scheme, apiextensionsv1.SchemeGroupVersion)
	scheme.AddKnownTypes(apiregistrationv1.SchemeGroupVersion,
		&apiregistrationv1.APIService{}, &apiregistrationv1.APIServiceList{})
	metav1.AddToGroupVersion(scheme, apiregistrationv1.SchemeGroupVersion)
	scheme.AddKnownTypes(eventsHub, &corev1.Event{}, &corev1.EventList{})
	return nil
}

// addConversions registers the conversions between the served versions of a
// kind that has two.
func addConversions(scheme *runtime.Scheme) error {
	return errors.Join(addEventConversions(scheme), addAutoscalerConversions(scheme))
}
