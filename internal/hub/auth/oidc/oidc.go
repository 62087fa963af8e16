// Package oidc authenticates users by tokens of OpenID issuers, with the authenticator of
// kube-apiserver. The issuers are configured by a file with an AuthenticationConfiguration of
// Kubernetes, which is read again when its content changes.
//
// The package must never decide about rights, nor accept a name from an issuer that is reserved for
// the hub.
package oidc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

const (
	// lookEvery is the interval at which the file is read.
	lookEvery = 2 * time.Second
	// knownFor is how long a verified token is not verified again. The cache of an issuer is
	// dropped with the issuer.
	knownFor = 10 * time.Second
)

// Issuers authenticate tokens of the issuers of a file. They are safe for concurrent use.
type Issuers struct {
	file   string
	logger *slog.Logger

	refused  atomic.Bool
	failures atomic.Int64
	// tried is the last content that was read, and bad reports whether it was rejected. Only Follow
	// uses them.
	tried []byte
	bad   bool

	mu  sync.RWMutex
	all []*issuer
}

// issuer is one issuer with its configuration.
type issuer struct {
	config apiserver.JWTAuthenticator
	token  authenticator.Token
	// during ends when the configuration is replaced.
	during context.Context
	end    context.CancelFunc
}

// Known is the result of the authentication of a token.
type Known struct {
	*authenticator.Response
	// Until is when the token expires.
	Until time.Time
	// During ends when the issuer is removed, or its configuration changes.
	During context.Context
}

// Open reads a file. The issuers need not be available yet. The caller must Close the result, which
// is nil without a file.
func Open(ctx context.Context, file string, logger *slog.Logger) (*Issuers, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // there is no file
	}
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	i := &Issuers{file: file, logger: logger, tried: data}
	if err := i.use(ctx, data); err != nil {
		return nil, err
	}
	return i, nil
}

// Close ends the watches of the issuers' keys. It does nothing for nil.
func (i *Issuers) Close() {
	if i != nil {
		i.replace(nil)
	}
}

// Follow applies the file whenever its content changes, until the context ends. It ignores an
// invalid content. For nil, it only waits.
func (i *Issuers) Follow(ctx context.Context) error {
	if i == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			i.reload(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (i *Issuers) reload(ctx context.Context) {
	data, err := read(i.file)
	switch {
	case err != nil:
		if i.refused.Swap(true) {
			return // already logged
		}
	case bytes.Equal(data, i.tried):
		i.refused.Store(i.bad)
		return
	default:
		i.tried = data
		err = i.use(ctx, data)
		i.bad = err != nil
		i.refused.Store(i.bad)
	}
	if err != nil {
		i.failures.Add(1)
		i.logger.Error("the authentication configuration has changed and can't be used; the previous one stays in effect", "file", i.file, "error", err)
		return
	}
	i.logger.Info("the authentication configuration was applied", "file", i.file)
}

// Refused reports whether the present file is invalid, and how often a content was invalid.
func (i *Issuers) Refused() (refused bool, failures int64) {
	return i.refused.Load(), i.failures.Load()
}

// use applies a content, if it is valid. Issuers with an unchanged configuration are kept.
func (i *Issuers) use(ctx context.Context, data []byte) error {
	configs, err := parse(data)
	if err != nil {
		return err
	}
	before := i.known()
	var all, made []*issuer
	for _, config := range configs {
		one := find(before, config)
		if one == nil {
			if one, err = newIssuer(ctx, config); err != nil {
				for _, one := range made {
					one.end()
				}
				return err
			}
			made = append(made, one)
		}
		all = append(all, one)
	}
	i.replace(all)
	return nil
}

func (i *Issuers) known() []*issuer {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.all
}

func find(all []*issuer, config apiserver.JWTAuthenticator) *issuer {
	for _, one := range all {
		if reflect.DeepEqual(one.config, config) {
			return one
		}
	}
	return nil
}

// replace sets the issuers, and ends all others together with their caches.
func (i *Issuers) replace(all []*issuer) {
	i.mu.Lock()
	before := i.all
	i.all = all
	i.mu.Unlock()
	for _, one := range before {
		if find(all, one.config) == nil {
			one.end()
		}
	}
}

// newIssuer starts an issuer, which runs until its end is called.
func newIssuer(ctx context.Context, config apiserver.JWTAuthenticator) (*issuer, error) {
	options := oidc.Options{JWTAuthenticator: config, SupportedSigningAlgs: oidc.AllValidSigningAlgorithms(), APIServerID: "orrery-hub"}
	if ca := config.Issuer.CertificateAuthority; ca != "" {
		content, err := dynamiccertificates.NewStaticCAContent("issuer", []byte(ca))
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", config.Issuer.URL, err)
		}
		options.CAContentProvider = content
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	one, err := oidc.New(ctx, options)
	if err != nil {
		end()
		return nil, fmt.Errorf("issuer %q: %w", config.Issuer.URL, err)
	}
	return &issuer{config, cache.New(one, false, knownFor, 0), ctx, end}, nil
}

// Authenticate verifies a token; the result is nil if it belongs to no issuer.
func (i *Issuers) Authenticate(ctx context.Context, token string) (*Known, error) {
	until, ok := expiry(token)
	if !ok {
		return nil, nil //nolint:nilnil // not a token of any issuer
	}
	for _, one := range i.known() {
		response, ok, err := one.token.AuthenticateToken(ctx, token)
		if err != nil {
			return nil, fmt.Errorf("issuer %q: %w", one.config.Issuer.URL, err)
		}
		if ok {
			return &Known{response, until, one.during}, nil
		}
	}
	return nil, nil //nolint:nilnil // as above
}

// expiry returns when a JSON web token expires. It does not verify the token.
func expiry(token string) (time.Time, bool) {
	_, rest, _ := strings.Cut(token, ".")
	claims, _, ok := strings.Cut(rest, ".")
	if !ok {
		return time.Time{}, false
	}
	text, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil {
		return time.Time{}, false
	}
	var payload struct {
		Exp json.Number `json:"exp"`
	}
	if json.Unmarshal(text, &payload) != nil {
		return time.Time{}, false
	}
	seconds, err := payload.Exp.Float64()
	return time.Unix(int64(seconds), 0), err == nil && seconds > 0
}
