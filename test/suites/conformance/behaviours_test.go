package conformance

import "slices"

// behaviours are all that is compared.
func behaviours() []behaviour {
	return slices.Concat(reads(), writes(), ends(), forms(), content(), badInput())
}

// reads are about lists, watches and selectors.
func reads() []behaviour {
	return []behaviour{
		{name: "limit and continue", run: limitAndContinue},
		{name: "continue with selectors", run: continueWithSelectors},
		{name: "bad continue tokens", run: badContinueTokens},
		{name: "limit with resource version", run: limitWithResourceVersion},
		{name: "odd limits", run: oddLimits},
		{name: "resource version match", run: resourceVersionMatch},
		{name: "future revisions", run: futureRevisions},
		{name: "get at revision", run: getAtRevision},
		{name: "malformed revisions", run: malformedRevisions, differs: "a revision that is none is a bad request"},
		{name: "limit of the cached", run: limitOfTheCached, differs: "the limit holds for lists of any revision, too"},
		{name: "lists of namespaces", run: listsOfNamespaces},
		{name: "watch from arevision", run: watchFromARevision},
		{name: "watch from zero and unset", run: watchFromZeroAndUnset},
		{name: "watch with label selector", run: watchWithLabelSelector},
		{name: "watch with field selector", run: watchWithFieldSelector},
		{name: "watch one name", run: watchOneName},
		{name: "watch by status", run: watchByStatus},
		{name: "bookmarks", run: bookmarks},
		{name: "watch timeout", run: watchTimeout},
		{name: "streaming list", run: streamingList},
		{name: "streaming list options", run: streamingListOptions},
		{name: "streaming list before the resource", run: streamingListBeforeTheResource},
		{name: "watch from the future", run: watchFromTheFuture, differs: "a watch from a revision that never comes is ended, and not silent"},
		{name: "watch of other forms", run: watchOfOtherForms, differs: "tables show how far objects have come at their locations"},
		{name: "field selectors", run: fieldSelectors},
		{name: "pod field selectors", run: podFieldSelectors},
		{name: "unsupported fields", run: unsupportedFields},
		{name: "label selectors", run: labelSelectors},
		{name: "invalid label selectors", run: invalidLabelSelectors},
	}
}

// writes are about what changes objects, and how it is refused.
func writes() []behaviour {
	return []behaviour{
		{name: "dry run", run: dryRun},
		{name: "bad dry run", run: badDryRun},
		{name: "dry run of custom resources", run: dryRunOfCustomResources},
		{name: "field validation of json", run: fieldValidationOfJSON},
		{name: "field validation of yaml", run: fieldValidationOfYAML},
		{name: "field validation of updates", run: fieldValidationOfUpdates},
		{name: "field validation of patches", run: fieldValidationOfPatches},
		{name: "field validation of workloads", run: fieldValidationOfWorkloads},
		{name: "field validation of custom resources", run: fieldValidationOfCustomResources},
		{name: "field manager rules", run: fieldManagerRules},
		{name: "managed fields of updates", run: managedFieldsOfUpdates},
		{name: "managed fields of apply", run: managedFieldsOfApply},
		{name: "apply to lists", run: applyToLists},
		{name: "apply to status", run: applyToStatus},
		{name: "bad applies", run: badApplies},
		{name: "managed fields of clients", run: managedFieldsOfClients},
		{name: "delete preconditions", run: deletePreconditions},
		{name: "update preconditions", run: updatePreconditions},
		{name: "generate name", run: generateName},
		{name: "mismatches", run: mismatches},
		{name: "invalid names", run: invalidNames},
		{name: "invalid metadata", run: invalidMetadata},
		{name: "fields of the server", run: fieldsOfTheServer},
		{name: "finalizers", run: finalizers},
		{name: "finalizers by put", run: finalizersByPut},
		{name: "delete options", run: deleteOptions},
		{name: "dependents", run: dependents, differs: "a space collects no garbage, and waits for nobody who would"},
		{name: "delete collection", run: deleteCollection},
		{name: "deleted objects", run: deletedObjects},
		{name: "namespace life", run: namespaceLife},
		{name: "created deleting", run: createdDeleting, differs: "no object is created with a deletion timestamp"},
		{name: "json patches", run: jsonPatches},
		{name: "merge patches", run: mergePatches},
		{name: "strategic patches", run: strategicPatches},
	}
}

// ends are about the deletion of Pods, which goes in two steps.
func ends() []behaviour {
	return []behaviour{
		{name: "pod deletion", run: podDeletion},
		{name: "pod preconditions", run: podPreconditions},
		{name: "held pods", run: heldPods},
		{name: "pod collections", run: podCollections},
		{name: "selected pods", run: selectedPods},
		{name: "pods with dependents", run: podsWithDependents, differs: "a space collects no garbage, and waits for nobody who would"},
		{name: "pods on nodes", run: podsOnNodes, differs: "no kubelet is there that would end a Pod, so its grace period is not waited for"},
	}
}

// forms are about how answers look, and about what can be discovered.
func forms() []behaviour {
	return []behaviour{
		{name: "partial metadata", run: partialMetadata},
		{name: "tables", run: tables, differs: "tables show how far objects have come at their locations"},
		{name: "protobuf forms", run: protobufForms},
		{name: "custom resources have no protobuf", run: customResourcesHaveNoProtobuf},
		{name: "media types", run: mediaTypes, differs: "application/* is what JSON is"},
		{name: "compression", run: compression},
		{name: "pretty", run: pretty},
		{name: "version", run: version},
		{name: "plain discovery", run: plainDiscovery, differs: "what makes a cluster act is not served"},
		{name: "aggregated discovery", run: aggregatedDiscovery},
		{name: "openapi", run: openAPI},
	}
}

// content is about particular kinds, and about those that CRDs define.
func content() []behaviour {
	return []behaviour{
		{name: "secret string data", run: secretStringData},
		{name: "immutable data", run: immutableData},
		{name: "unvalidated", run: unvalidated, differs: "the content of built-in kinds is not validated: the cluster that gets it does that"},
		{name: "defaulted", run: defaulted, differs: "a space adds nothing to what was written"},
		{name: "metadata through status", run: metadataThroughStatus, differs: "finalizers are validated for every kind, whichever way they are written"},
		{name: "warned", run: warned, differs: "a space has nothing to say of the content of built-in kinds"},
		{name: "both events", run: bothEvents},
		{name: "both autoscalers", run: bothAutoscalers},
		{name: "status isolation", run: statusIsolation},
		{name: "generations", run: generations},
		{name: "scale subresource", run: scaleSubresource},
		{name: "other subresources", run: otherSubresources, differs: "what makes a cluster act is not served"},
		{name: "custom resource rules", run: customResourceRules},
		{name: "custom resource versions", run: customResourceVersions},
		{name: "custom resource selectors", run: customResourceSelectors, differs: "tables show how far objects have come at their locations"},
		{name: "bad definitions", run: badDefinitions},
	}
}

// badInput is about malformed requests.
func badInput() []behaviour {
	return []behaviour{
		{name: "request timeouts", run: requestTimeouts},
		{name: "forms of reviews", run: formsOfReviews},
		{name: "impersonation", run: impersonation},
		{name: "health", run: health},
		{name: "oversize bodies", run: oversizeBodies},
		{name: "too large", run: tooLarge, differs: "an object may have any kind of content up to one size, and an object above it is refused as such"},
		{name: "deep json", run: deepJSON, differs: "what is nested too deeply is refused before it is decoded, by a bound that is lower"},
		{name: "deep custom resources", run: deepCustomResources, differs: "what is nested too deeply is refused before it is decoded, by a bound that is lower"},
		{name: "odd bodies", run: oddBodies},
		{name: "malformed protobuf", run: malformedProtobuf},
		{name: "odd paths", run: oddPaths},
		{name: "huge urls", run: hugeURLs, differs: "a query has a bound of its own: each term of a selector is compared with each object"},
		{name: "unknown paths", run: unknownPaths, differs: "no path makes a space blame itself"},
		{name: "methods", run: methods},
	}
}
