package write

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"orrery.dev/orrery/internal/hub/kinds"
	"orrery.dev/orrery/internal/protocol/key"
)

// pair has the strategies of a kind's objects, and of their status; the latter is nil if the kind
// has none.
type pair struct{ main, status rest.RESTCreateUpdateStrategy }

// strategies extends the strategies of kinds that need more than their schema.
type strategies struct {
	// own extends the strategies of Orrery's kinds, which their schemas give, and builtin those of
	// built-in kinds.
	own     map[key.Resource]func(pair) pair
	builtin map[key.Resource]func(inert) pair
	// unstored extends the strategies of a version that is not stored.
	unstored func(*kinds.Kind, pair) pair
}

func newStrategies(s *Server) strategies {
	t, policies, schemas := s.config.Table, &policyValidator{s.config.Table, s.config.Rules, s.config.Summaries, s.config.KindRules}, &schemaCache{s.config.Table, s.config.Kinds, s.schemas}
	return strategies{
		own: map[key.Resource]func(pair) pair{
			key.Spaces: func(p pair) pair { return keptPair(key.Spaces, pair{named{p.main, true}, p.status}) },
			key.Locations: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return weighed{validated{tainted{named{main, false}, t.Rev}, validateLocation}, key.Locations}
			}),
			key.Placements: func(p pair) pair {
				main := followed{validated{p.main, validatePlacement}, s.config.Follows}
				return pair{weighed{unmatchable{main, t, s.config.Kinds}, key.Placements}, followedStatus{p.status}}
			},
			key.Customizers: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return weighed{ruled{validated{main, policies.validateCustomizer}, schemas, policies.rulesOf}, key.Customizers}
			}),
			key.Summaries: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return weighed{ruled{validated{main, policies.validateSummary}, schemas, policies.expressionsOf}, key.Summaries}
			}),
			key.KindRules: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return validated{main, policies.validateKindRules}
			}),
			key.Grants: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return weighed{validated{main, validateGrant}, key.Grants}
			}),
			key.APIBindings: func(p pair) pair {
				return keptPair(key.APIBindings, pair{bindings{validated{fewBindings(t, p.main), validateBinding}, s}, bindings{p.status, s}})
			},
			key.APIExports: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy {
				return weighed{validated{main, s.validateExport}, key.APIExports}
			}),
			key.APIExportViews: onMain(func(main rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy { return fewViews(t, main) }),
		},
		builtin: map[key.Resource]func(inert) pair{
			key.CRDs: func(plain inert) pair {
				return keptPair(key.CRDs, pair{newDefinitions(s.config.Kinds, plain), newDefinitionStatus(s.config.Kinds, plain)})
			},
			key.Namespaces: func(plain inert) pair {
				return keptPair(key.Namespaces, pair{namespaces{plain}, inertStatus{plain}})
			},
			key.Secrets:    func(plain inert) pair { return pair{secrets{plain}, nil} },
			key.ConfigMaps: func(plain inert) pair { return pair{configMaps{plain}, nil} },
		},
		unstored: func(kind *kinds.Kind, p pair) pair {
			extended := pair{main: unconverted{p.main, s, kind}}
			if p.status != nil {
				extended.status = unconverted{p.status, s, kind}
			}
			return extended
		},
	}
}

// keptPair keeps the finalizer of objects that own others.
func keptPair(r key.Resource, p pair) pair { return pair{kept{p.main, r}, kept{p.status, r}} }

// onMain extends only the strategy of objects.
func onMain(extend func(rest.RESTCreateUpdateStrategy) rest.RESTCreateUpdateStrategy) func(pair) pair {
	return func(p pair) pair { return pair{extend(p.main), p.status} }
}

// forKind returns the strategies of a kind's objects, and of their status.
func (s strategies) forKind(kind *kinds.Kind, typer runtime.ObjectTyper) (main, status rest.RESTCreateUpdateStrategy) {
	if kind.Custom == nil {
		plain := newInert(kind, typer)
		p := pair{plain, inertStatus{plain}}
		if extend, ok := s.builtin[kind.Resource]; ok {
			p = extend(plain)
		}
		return p.main, p.status
	}
	p := pair{main: kind.Custom.Strategy()}
	if kind.HasStatus {
		p.status = kind.Custom.StatusStrategy()
	}
	if kind.GVK.Version != kind.Storage.Version {
		p = s.unstored(kind, p)
	}
	if extend, ok := s.own[kind.Resource]; ok {
		p = extend(p)
	}
	return p.main, p.status
}
