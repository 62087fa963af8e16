package columns

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/registry/customresource/tableconvertor"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Custom is for objects of a kind that a CRD defines, by the columns that it
// defines. It falls back to name and age, as Kubernetes does:
// a CRD with columns that can't be read is served all the same.
func Custom(defined []apiextensionsv1.CustomResourceColumnDefinition) rest.TableConvertor {
	if len(defined) == 0 {
		defined = ageColumn()
	}
	table, err := tableconvertor.New(defined)
	if err != nil {
		table, _ = tableconvertor.New(ageColumn())
	}
	return table
}

func ageColumn() []apiextensionsv1.CustomResourceColumnDefinition {
	return []apiextensionsv1.CustomResourceColumnDefinition{{
		Name:        "Age",
		Type:        "date",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"],
		JSONPath:    ".metadata.creationTimestamp",
	}}
}
