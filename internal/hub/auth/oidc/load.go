package oidc

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
)

// read reads a file, which must not be empty: one that is being written may be.
func read(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err == nil && len(data) == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("read the authentication configuration: %w", err)
	}
	return data, nil
}

// parse reads an AuthenticationConfiguration strictly, and refuses what the libraries of
// Kubernetes refuse, and anonymous access.
func parse(data []byte) ([]apiserver.JWTAuthenticator, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), data)
	if err != nil {
		return nil, fmt.Errorf("decode the authentication configuration: %w", err)
	}
	config, ok := decoded.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("decode the authentication configuration: want an AuthenticationConfiguration, got %T", decoded)
	}
	problems := validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), config, nil)
	if config.Anonymous != nil && config.Anonymous.Enabled {
		problems = append(problems, field.Forbidden(field.NewPath("anonymous", "enabled"), "this hub has no anonymous access"))
	}
	if err := problems.ToAggregate(); err != nil {
		return nil, fmt.Errorf("check the authentication configuration: %w", err)
	}
	return config.JWT, nil
}
