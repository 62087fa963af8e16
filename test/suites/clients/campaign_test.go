package clients

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Campaign is the Go type of the kind that campaigns defines.
type Campaign struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec struct {
		Product  string `json:"product"`
		Discount int    `json:"discount,omitempty"`
	} `json:"spec"`
	Status struct {
		Page               string `json:"page,omitempty"`
		ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	} `json:"status,omitzero"`
}

// CampaignList is what a list of them is.
type CampaignList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Campaign `json:"items"`
}

// DeepCopyObject makes it a runtime.Object.
func (c *Campaign) DeepCopyObject() runtime.Object {
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject makes it a runtime.Object.
func (l *CampaignList) DeepCopyObject() runtime.Object {
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = make([]Campaign, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*Campaign)
	}
	return &out
}

func addCampaigns(s *runtime.Scheme) {
	gv := schema.GroupVersion{Group: "shop.example", Version: "v1"}
	s.AddKnownTypes(gv, &Campaign{}, &CampaignList{})
	metav1.AddToGroupVersion(s, gv)
}
