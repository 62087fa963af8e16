// Command oidc is an OpenID issuer for whole-system tests: the provider of
// github.com/zitadel/oidc with the storage and the login page of its examples, behind
// TLS. Its users are in a file. Clients sign in as at any issuer.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to serve on")
	cert := flag.String("cert", "", "the server's certificate, PEM")
	key := flag.String("key", "", "its key, PEM")
	users := flag.String("users", "", "the users, JSON")
	redirect := flag.String("redirect", "http://localhost:9999/auth/callback", "URL at which the client receives a code")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *cert, *key, *users, *redirect); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, listen, cert, key, users, redirect string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	store, err := storage.StoreFromFile(users)
	if err != nil {
		return err
	}
	issuer := "https://" + listener.Addr().String()
	storage.RegisterClients(storage.WebClient("orrery", "secret", redirect))
	server := &http.Server{
		Handler:           exampleop.SetupServer(issuer, storage.NewStorage(store), slog.New(slog.NewTextHandler(io.Discard, nil)), false),
		ReadHeaderTimeout: time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, cert, key) }()
	fmt.Println("oidc ready:", issuer)
	<-ctx.Done()
	err = cmp.Or(server.Close(), <-served)
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
