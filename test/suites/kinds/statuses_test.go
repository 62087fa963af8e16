package kinds

// statuses has a status of every kind that has the subresource, as the
// controllers of Kubernetes would write it.
var statuses = map[string]string{
	"APIService":                 `{"conditions":[{"type":"Available","status":"False","reason":"MissingEndpoints","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`,
	"CertificateSigningRequest":  `{"certificate":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg=="}`,
	"CronJob":                    `{"lastScheduleTime":"2026-01-02T03:05:00Z","active":[{"kind":"Job","namespace":"shop","name":"report-1","apiVersion":"batch/v1"}]}`,
	"CustomResourceDefinition":   `{"storedVersions":["v1"]}`,
	"DaemonSet":                  `{"currentNumberScheduled":2,"desiredNumberScheduled":3,"numberMisscheduled":0,"numberReady":1,"observedGeneration":1}`,
	"Deployment":                 `{"replicas":3,"readyReplicas":2,"observedGeneration":1,"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"}]}`,
	"FlowSchema":                 `{"conditions":[{"type":"Dangling","status":"False","reason":"Found","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`,
	"HorizontalPodAutoscaler":    `{"currentReplicas":2,"desiredReplicas":4,"observedGeneration":1}`,
	"Ingress":                    `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1","ports":[{"port":443,"protocol":"TCP"}]}]}}`,
	"Job":                        `{"active":1,"succeeded":2,"startTime":"2026-01-02T03:04:05Z","completedIndexes":"0-1"}`,
	"Namespace":                  `{"phase":"Active","conditions":[{"type":"NamespaceContentRemaining","status":"False","reason":"ContentRemoved"}]}`,
	"Node":                       `{"capacity":{"cpu":"8","memory":"32Gi"},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}],"nodeInfo":{"kubeletVersion":"v1.36.3"}}`,
	"PersistentVolume":           `{"phase":"Available","lastPhaseTransitionTime":"2026-01-02T03:04:05Z"}`,
	"PersistentVolumeClaim":      `{"phase":"Bound","accessModes":["ReadWriteOnce"],"capacity":{"storage":"10Gi"}}`,
	"Pod":                        `{"phase":"Running","podIP":"10.1.0.9","conditions":[{"type":"Ready","status":"True"}],"qosClass":"Burstable"}`,
	"PodDisruptionBudget":        `{"currentHealthy":3,"desiredHealthy":2,"disruptionsAllowed":1,"expectedPods":3,"observedGeneration":1}`,
	"PriorityLevelConfiguration": `{"conditions":[{"type":"Example","status":"True","reason":"Because","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`,
	"ReplicaSet":                 `{"replicas":2,"readyReplicas":1,"observedGeneration":1}`,
	"ReplicationController":      `{"replicas":2,"readyReplicas":1,"observedGeneration":1}`,
	"ResourceClaim":              `{"reservedFor":[{"resource":"pods","name":"train","uid":"6b1c1f6e-0000-4000-8000-000000000001"}]}`,
	"ResourceQuota":              `{"hard":{"pods":"10"},"used":{"pods":"3"}}`,
	"Service":                    `{"loadBalancer":{"ingress":[{"hostname":"lb.example.com"}]}}`,
	"ServiceCIDR":                `{"conditions":[{"type":"Ready","status":"True","reason":"Allocated","message":"","lastTransitionTime":"2026-01-02T03:04:05Z"}]}`,
	"StatefulSet":                `{"replicas":1,"readyReplicas":1,"currentRevision":"db-7f","updateRevision":"db-7f","availableReplicas":1}`,
	"ValidatingAdmissionPolicy":  `{"observedGeneration":1,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"undefined field"}]}}`,
	"VolumeAttachment":           `{"attached":true,"attachmentMetadata":{"devicePath":"/dev/vdb"}}`,
}
