// Package oidc knows people by what OpenID issuers say of them: by the file of an
// AuthenticationConfiguration of Kubernetes, with the authenticator of kube-apiserver. The
// file is read again when its content changes.
//
// It must never decide what somebody may do, nor let an issuer give a name that is the
// hub's.
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
	// lookEvery is how often the file is read.
	lookEvery = 2 * time.Second
	// knownFor is for how long a token that was verified is not verified again. With its
	// issuer what is known of it goes, too.
	knownFor = 10 * time.Second
)

// Issuers authenticate tokens of the issuers of a file. They are safe for concurrent use.
type Issuers struct {
	file   string
	logger *slog.Logger

	refused  atomic.Bool
	failures atomic.Int64
	// tried is the content that was read last, and bad says that it was refused; for
	// Follow alone.
	tried []byte
	bad   bool

	mu  sync.RWMutex
	all []*issuer
}

// issuer is one issuer, as one configuration says.
type issuer struct {
	config apiserver.JWTAuthenticator
	token  authenticator.Token
	// during ends when the configuration does.
	during context.Context
	end    context.CancelFunc
}

// Known is what is known by a token.
type Known struct {
	*authenticator.Response
	// Until is when the token expires.
	Until time.Time
	// During ends when the issuer is removed, or its configuration changes.
	During context.Context
}

// Open reads a file. An issuer need not answer yet. The caller must Close what is
// returned; that is nil without a file: nobody else says who people are.
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

// Close ends what follows the issuers' keys. Without Issuers there is nothing to end.
func (i *Issuers) Close() {
	if i != nil {
		i.replace(nil)
	}
}

// Follow takes over the file whenever its content changes, until the context ends. A
// content that can't be used changes nothing. Without Issuers it waits.
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
			i.look(ctx)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (i *Issuers) look(ctx context.Context) {
	data, err := read(i.file)
	switch {
	case err != nil:
		if i.refused.Swap(true) {
			return // it has been said
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
		i.logger.Error("the authentication configuration has changed and can't be used; the former one is in force", "file", i.file, "error", err)
		return
	}
	i.logger.Info("the authentication configuration was taken over", "file", i.file)
}

// Refused says whether the file can't be used as it is, and Failures how often that was.
func (i *Issuers) Refused() (refused bool, failures int64) {
	return i.refused.Load(), i.failures.Load()
}

// use has a content be in force, if it can be. Issuers that it leaves as they were go on.
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

// replace has these be all issuers, and ends the others with what is known by them.
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

// newIssuer makes an issuer, which goes on until it is ended.
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

// Authenticate says what is known by a token; nil: no issuer's.
func (i *Issuers) Authenticate(ctx context.Context, token string) (*Known, error) {
	until, ok := expiry(token)
	if !ok {
		return nil, nil //nolint:nilnil // it is no token of any issuer
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

// expiry is when a JSON web token expires; it is for its issuer to say whether it is one.
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
	var said struct {
		Exp json.Number `json:"exp"`
	}
	if json.Unmarshal(text, &said) != nil {
		return time.Time{}, false
	}
	seconds, err := said.Exp.Float64()
	return time.Unix(int64(seconds), 0), err == nil && seconds > 0
}
