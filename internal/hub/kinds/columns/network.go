package columns

import (
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func networkPrinters() map[string]printer {
	return map[string]printer{
		"Ingress": printed(cols("Name", "Class", "Hosts", "Address", "Ports", "Age"), ingressCells),
		"IngressClass": printed(cols("Name", "Controller", "Parameters", "Age"), func(c *networkingv1.IngressClass, now time.Time) []any {
			parameters := none
			if p := c.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			name := c.Name
			if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
				name += " (default)"
			}
			return []any{name, c.Spec.Controller, parameters, age(c.CreationTimestamp, now)}
		}),
		"IPAddress": printed(cols("Name", "ParentRef"), func(a *networkingv1.IPAddress, _ time.Time) []any {
			parent := none
			if r := a.Spec.ParentRef; r != nil {
				gr := schema.GroupResource{Group: r.Group, Resource: r.Resource}
				segments := []string{strings.ToLower(gr.String()), r.Namespace, r.Name}
				parent = strings.Join(slices.DeleteFunc(segments, func(s string) bool { return s == "" }), "/")
			}
			return []any{a.Name, parent}
		}),
		"NetworkPolicy": printed(cols("Name", "Pod-Selector", "Age"), func(p *networkingv1.NetworkPolicy, now time.Time) []any {
			return []any{p.Name, selectorString(&p.Spec.PodSelector), age(p.CreationTimestamp, now)}
		}),
		"ServiceCIDR": printed(cols("Name", "CIDRs", "Age"), func(c *networkingv1.ServiceCIDR, now time.Time) []any {
			return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), age(c.CreationTimestamp, now)}
		}),
	}
}

func ingressCells(i *networkingv1.Ingress, now time.Time) []any {
	var hosts, addresses []string
	for _, r := range i.Spec.Rules {
		if r.Host != "" {
			hosts = append(hosts, r.Host)
		}
	}
	for _, a := range i.Status.LoadBalancer.Ingress {
		if a.IP != "" {
			addresses = append(addresses, a.IP)
		} else if a.Hostname != "" {
			addresses = append(addresses, a.Hostname)
		}
	}
	slices.Sort(addresses)
	ports := "80"
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	return []any{i.Name, or(i.Spec.IngressClassName, none), someOf(hosts, 3, ",", "*"),
		strings.Join(slices.Compact(addresses), ","), ports, age(i.CreationTimestamp, now)}
}

func discoveryPrinters() map[string]printer {
	return map[string]printer{
		"EndpointSlice": printed(cols("Name", "AddressType", "Ports", "Endpoints", "Age"), func(e *discoveryv1.EndpointSlice, now time.Time) []any {
			var ports, addresses []string
			for _, p := range e.Ports {
				switch {
				case p.Port != nil:
					ports = append(ports, itoa(*p.Port))
				case p.Name != nil:
					ports = append(ports, *p.Name)
				default:
					ports = append(ports, "*")
				}
			}
			for _, endpoint := range e.Endpoints {
				addresses = append(addresses, endpoint.Addresses...)
			}
			return []any{e.Name, string(e.AddressType), someOf(ports, 3, ",", unset), someOf(addresses, 3, ",", unset), age(e.CreationTimestamp, now)}
		}),
	}
}
