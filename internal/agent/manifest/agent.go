// Package manifest has the Kubernetes objects with which an agent runs in its cluster: its account and rights,
// the join token, the volume of its data directory, and the Deployment.
//
// Objects are typed and printed as YAML, never composed as text. The package must not send requests to a hub or
// a cluster. Only the Secret may contain a secret.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"orrery.dev/orrery/internal/protocol/key"
)

const (
	// repository is the image of the agent; its tag is a version.
	repository = "orrery.dev/orrery-agent"
	binary     = "/orrery-agent"
	// volumeDir is the mount point of the volume. It belongs to root, and the agent must deny other users access
	// to its data directory. So the agent creates that directory below, at its default path, which users that run
	// a command in the Pod expect.
	volumeDir = "/var/lib"
	dataDir   = volumeDir + "/orrery-agent"
	joinDir   = "/etc/orrery-agent"
	joinKey   = "join"
	joinHash  = "orrery.dev/join-hash"
	portName  = "metrics"
	port      = 8080
	// nonRoot is the user and group of the process, which owns no file in any image.
	nonRoot = 65532
)

// Agent is an agent in its cluster.
type Agent struct {
	Location key.Location
	// Join is the whole join token, which works once.
	Join string
	// Shard is the shard of the location that the agent serves. Several agents in one namespace have a Secret, a
	// volume and a Deployment each, and one account for all.
	Shard key.Shard
	// Namespace is the namespace of the agent. Image is an image with the binary orrery-agent in its root
	// directory.
	Namespace, Image string
	Rights           Rights
}

// DefaultImage returns the image of the agent of a version.
func DefaultImage(version string) string {
	tag := strings.Trim(strings.NewReplacer("+", "-", "(", "", ")", "").Replace(version), "-")
	if tag == "" {
		tag = "devel"
	}
	return repository + ":" + tag
}

// Objects returns all objects of the agent, in the order in which they can be applied.
func (a *Agent) Objects() []any {
	return append(a.Rights.Objects(a.Namespace), a.secret(), a.volume(), a.deployment())
}

func (a *Agent) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: a.Namespace, Labels: a.labels()}
}

// name returns the name of the objects of this agent alone. The agent of the first shard has the same name as an
// agent without shards.
func (a *Agent) name() string {
	if n := a.Shard.Number(); n > 1 {
		return fmt.Sprintf("%s-%d", name, n)
	}
	return name
}

func (a *Agent) joinSecret() string { return a.name() + "-join" }

func (a *Agent) labels() map[string]string {
	return map[string]string{"app.kubernetes.io/name": a.name(), "app.kubernetes.io/instance": string(a.Location)}
}

func (a *Agent) secret() corev1.Secret {
	return corev1.Secret{
		TypeMeta: core("Secret"), ObjectMeta: a.meta(a.joinSecret()),
		Type: corev1.SecretTypeOpaque, StringData: map[string]string{joinKey: a.Join},
	}
}

// volume returns the volume of the data directory. It must outlive the Pod, since it contains the agent's
// credential.
func (a *Agent) volume() corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{
		TypeMeta: core("PersistentVolumeClaim"), ObjectMeta: a.meta(a.name()),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// deployment returns the Deployment of one process: the old one ends before the new one begins, since two can't
// share the data directory. A new join token causes a new Pod.
func (a *Agent) deployment() appsv1.Deployment {
	hash := sha256.Sum256([]byte(a.Join))
	return appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: a.meta(a.name()),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(2)),
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			Selector: &metav1.LabelSelector{MatchLabels: a.labels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: a.labels(), Annotations: map[string]string{joinHash: hex.EncodeToString(hash[:8])}},
				Spec: corev1.PodSpec{
					ServiceAccountName: name, EnableServiceLinks: new(false),
					SecurityContext: &corev1.PodSecurityContext{
						RunAsNonRoot: new(true), RunAsUser: new(int64(nonRoot)), RunAsGroup: new(int64(nonRoot)), FSGroup: new(int64(nonRoot)),
						FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
						SeccompProfile:      &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
					},
					Containers: []corev1.Container{a.container()},
					Volumes: []corev1.Volume{
						{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: a.name()}}},
						{Name: joinKey, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
							SecretName: a.joinSecret(), Optional: new(true), DefaultMode: new(int32(0o440)), // a user may delete it after its use
						}}},
					},
				},
			},
		},
	}
}

func (a *Agent) container() corev1.Container {
	args := []string{"--data-dir=" + dataDir, "--join-file=" + joinDir + "/" + joinKey, fmt.Sprintf("--metrics=:%d", port)}
	if !a.Shard.Whole() {
		args = append(args, "--shards="+a.Shard.String())
	}
	return corev1.Container{
		Name: name, Image: a.Image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{binary},
		Args:  args,
		Ports: []corev1.ContainerPort{{Name: portName, ContainerPort: port, Protocol: corev1.ProtocolTCP}},
		LivenessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString(portName)}},
			PeriodSeconds: 30, TimeoutSeconds: 10, FailureThreshold: 5,
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
		VolumeMounts: []corev1.VolumeMount{
			{Name: "data", MountPath: volumeDir},
			{Name: joinKey, MountPath: joinDir, ReadOnly: true},
		},
	}
}

// Print prints objects as YAML documents, without the fields that only a cluster sets.
func Print(w io.Writer, objects []any) error {
	for _, o := range objects {
		b, err := json.Marshal(o)
		if err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		var fields map[string]any
		if err := json.Unmarshal(b, &fields); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		delete(fields, "status")
		if fields["kind"] == "Namespace" {
			delete(fields, "spec")
		}
		if b, err = yaml.Marshal(fields); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		if _, err := fmt.Fprintf(w, "---\n%s", b); err != nil {
			return err
		}
	}
	return nil
}
