# Everything is built and run from here; `make help` lists the targets. A fresh
# Debian machine needs Go, make, git and, for the race detector, gcc.

BIN   := .bin
GO    ?= go
TOOL  := $(GO) tool -modfile=$(CURDIR)/tools/go.mod
# All is built in one way, for itself and without cgo, so that what Kubernetes, the binaries and the
# tests have in common is compiled once; only the race detector wants it otherwise.
export CGO_ENABLED := 0
export GOFLAGS     := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath
# Heavy builds leave the machine usable.
NICE  ?= nice

# CI sets GOTESTFLAGS=-count=1: nothing is taken from the test cache.
GOTESTFLAGS ?=

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

.PHONY: demo
demo: build ## the hub, three simulated locations and an application, to play with
	$(BIN)/orrery demo

# What the binaries say that they are: a tag, or a commit, and whether it was changed.
# Where there is no checkout, as in an archive, VERSION=v1.2.3 says it.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
STAMP    = $(if $(VERSION),-X orrery.dev/orrery/internal/lib/process.stamped=$(VERSION))

.PHONY: build
build: ## orrery and orrery-agent, into .bin
	$(GO) build -ldflags '$(STAMP)' -o $(BIN)/ ./cmd/orrery ./cmd/orrery-agent

# Binaries that need nothing of the system that they run on.
.PHONY: static
static: | $(BIN)
	$(NICE) $(GO) build -ldflags '-s -w $(STAMP)' -o $(BIN)/static/ ./cmd/orrery ./cmd/orrery-agent

# CONTAINER is what builds images: docker, podman or buildah.
CONTAINER  ?= docker
REPOSITORY ?= orrery.dev
.PHONY: image
image: static ## images of orrery and orrery-agent, from Containerfile; push them to where clusters find them
	cp /etc/ssl/certs/ca-certificates.crt $(BIN)/static/
	tag=$$($(BIN)/static/orrery-agent --version | sed 's/.* //; s/+/-/g; s/[()]//g'); \
	for i in orrery orrery-agent; do \
	  $(CONTAINER) build --target $$i --tag $(REPOSITORY)/$$i:$$tag --file Containerfile $(BIN)/static || exit 1; \
	done

# --- tests -------------------------------------------------------------------

# Prints go test's own lines, the output of what failed, and fails also if a test
# was skipped: every test here is required.
GATE := $(GO) run ./test/support/gate

.PHONY: test
test: unit system ## all tests; the first run builds Kubernetes

# The longest are first, so that none runs alone at last. What go test would vet, make lint does.
# What collects garbage half as often takes a seventh less time.
.PHONY: unit
unit: gcc ## the tests of the packages, with the race detector
	CGO_ENABLED=1 GOGC=200 $(NICE) $(GO) test -json -vet=off -race -parallel 6 -timeout 40m $(GOTESTFLAGS) ./internal/hub ./internal/agent ./internal/... ./apis/... ./views | $(GATE)

# The system tests run the binaries, of which the test cache knows nothing, and no
# more than three packages at once, three tests of each, since a test starts whole
# clusters and then mostly waits. The longest are first, so that none runs alone at last, but
# beside the two that take most of the machine, and the clients, one that waits.
LONGEST := ./test/suites/faults ./test/suites/ownership ./test/suites/network ./test/suites/operator ./test/suites/e2e ./test/suites/agent ./test/suites/kinds
# Stock clients do one thing after the other and mostly wait, so they run beside the rest.
# All is compiled before the first of them starts, since those wait for what a machine that compiles does late.
.PHONY: system
system: build static kube peers clock previous compiled $(BIN)/helm $(BIN)/oidc ## the guards on the source, and tests of the whole system on real clusters
	@$(MAKE) --no-print-directory -j2 whole clients

# What make system runs once all is built.
.PHONY: whole clients
whole:
	$(NICE) $(GO) test -json -vet=off -count=1 -p 3 -parallel 3 -timeout 40m $(LONGEST) . ./cmd/... ./test/... | $(GATE)
clients:
	$(NICE) $(GO) vet -C examples ./...
	$(NICE) $(GO) test -C test/suites/clients -json -vet=off -count=1 -timeout 40m -ldflags='-s -w' ./... | $(GATE)
	$(NICE) $(GO) test -C test/suites/clients/argo -json -vet=off -count=1 -timeout 40m -ldflags='-s -w' ./... | $(GATE)

# What tests consist of, without linking them, which is not kept.
COMPILE := $(NICE) $(GO) list -export -deps -test
.PHONY: compiled
compiled:
	$(COMPILE) . ./cmd/... ./test/... > /dev/null
	cd examples && $(COMPILE) ./... > /dev/null
	cd test/suites/clients && $(COMPILE) ./... > /dev/null
	cd test/suites/clients/argo && $(COMPILE) ./... > /dev/null

.PHONY: gcc
gcc:
	@command -v gcc >/dev/null || { \
	  echo "installing gcc, which the race detector needs"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends gcc libc6-dev; }

# What Debian packages have that some system tests use: networks and proxies.
.PHONY: peers
peers:
	@missing=; for p in ip=iproute2 haproxy=haproxy squid=squid; do \
	  PATH=$$PATH:/usr/sbin command -v $${p%=*} >/dev/null || missing="$$missing $${p#*=}"; done; \
	[ -z "$$missing" ] || { echo "installing$$missing, which system tests use"; \
	  apt-get update -qq && apt-get install -y -qq --no-install-recommends $$missing; }

# A hub and an agent whose wall clocks a test can move.
.PHONY: clock
clock: | $(BIN)
	$(GO) run ./test/support/clock $(BIN)/clock
	$(NICE) $(GO) build -overlay $(BIN)/clock/overlay.json -ldflags '-s -w' -o $(BIN)/clock/ ./cmd/orrery ./cmd/orrery-agent

# Hub and agent of the minor version before this one, with which those of today have to go on. Until
# that has internal/lib/process, its version is in internal/version; the linker ignores what is not there.
# A checkout without history that reaches back to it takes those of its newest commit but one, or of its own.
PREVIOUS := f9302010aeab614dfe341dc7541767bebbebf242
.PHONY: previous
previous: $(BIN)/previous/$(PREVIOUS)
$(BIN)/previous/$(PREVIOUS):
	rm -rf $(@D)
	mkdir -p $(@D)/source
	commit=$$(for c in $(PREVIOUS) HEAD~1 HEAD; do git rev-parse --verify --quiet $$c^{commit} && break; done) && \
	  echo "building hub and agent of commit $$commit" && \
	  git archive --output $(@D)/source.tar $$commit && tar -xf $(@D)/source.tar -C $(@D)/source && \
	  cd $(@D)/source && $(NICE) $(GO) build -buildvcs=false -ldflags "-s -w $$(for p in version lib/process; do echo "-X orrery.dev/orrery/internal/$$p.stamped=at-$$(expr substr $$commit 1 12)"; done)" -o ../ ./cmd/orrery ./cmd/orrery-agent
	rm -rf $(@D)/source $(@D)/source.tar
	touch $@

.PHONY: soak
soak: build static kube peers clock previous $(BIN)/oidc ## the tests of the packages and of the system again and again, with more of what is random, for SOAK (default 1h)
	end=$$(($$(date +%s) + $$(echo $(or $(SOAK),1h) | sed 's/h/*3600/; s/m/*60/; s/s//'))); \
	while [ $$(date +%s) -lt $$end ]; do \
	  ORRERY_SCHEDULES=1500 $(GO) test -json -count=1 -timeout 60m ./internal/agent ./internal/... | $(GATE) || exit 1; \
	  ORRERY_FAULT_ROUNDS=200 $(GO) test -tags soak -json -count=1 -p 1 -timeout 60m ./test/... | $(GATE) || exit 1; \
	done

.PHONY: bench
bench: build kube ## the benchmarks: a table, and JSON in bench/results
	$(GO) run ./test/bench

# --- checks ------------------------------------------------------------------

.PHONY: lint
lint: ## golangci-lint with .golangci.yml
	$(NICE) $(TOOL) golangci-lint run
	cd test/suites/clients && $(NICE) $(TOOL) golangci-lint run
	cd test/suites/clients/argo && $(NICE) $(TOOL) golangci-lint run
	cd examples && $(NICE) $(TOOL) golangci-lint run

.PHONY: vuln
vuln: ## known vulnerabilities in what is linked; needs the network
	$(NICE) $(TOOL) govulncheck ./...

.PHONY: generate
generate: | $(BIN) ## deepcopy, CRDs and docs/reference.md, from apis/
	$(TOOL) controller-gen object crd paths=./apis/... output:crd:artifacts:config=internal/hub/kinds/registry/crds
	mkdir -p docs
	cd tools && $(GO) run ./reference ../internal/hub/kinds/registry/crds > ../$(BIN)/reference.md
	mv $(BIN)/reference.md docs/reference.md

$(BIN):
	mkdir -p $@

# --- real Kubernetes for tests -----------------------------------------------

KUBE_VERSION := $(shell sed -n 's|^[[:space:]]k8s.io/kubernetes v\([0-9.]*\) .*|\1|p' test/support/kube/go.mod)
KUBE_MAJOR   := $(word 1,$(subst ., ,$(KUBE_VERSION)))
KUBE_MINOR   := $(word 2,$(subst ., ,$(KUBE_VERSION)))
KUBE_PARTS   := kube-apiserver kube-controller-manager kube-scheduler kubectl
KUBE_FLAGS   := $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
  -X $(p).gitVersion=v$(KUBE_VERSION) -X $(p).gitMajor=$(KUBE_MAJOR) -X $(p).gitMinor=$(KUBE_MINOR))

.PHONY: kube
kube: $(addprefix $(BIN)/,$(KUBE_PARTS) etcd etcdutl kwok) ## kube-apiserver and the rest of a cluster, into .bin

$(addprefix $(BIN)/,$(KUBE_PARTS)) &: test/support/kube/go.mod test/support/kube/go.sum
	@echo "building Kubernetes v$(KUBE_VERSION), which takes minutes the first time"
	cd test/support/kube && $(NICE) $(GO) build -o $(CURDIR)/$(BIN)/ -ldflags '-s -w $(KUBE_FLAGS)' \
	  $(addprefix k8s.io/kubernetes/cmd/,$(KUBE_PARTS))
	touch $(addprefix $(BIN)/,$(KUBE_PARTS))

$(BIN)/etcd: test/support/kube/go.mod test/support/kube/go.sum
	cd test/support/kube && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' go.etcd.io/etcd/server/v3
	touch $@

$(BIN)/etcdutl: test/support/kube/etcdutl/go.mod test/support/kube/etcdutl/go.sum
	cd test/support/kube/etcdutl && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' go.etcd.io/etcd/etcdutl/v3
	touch $@

$(BIN)/kwok: test/support/kube/kwok/go.mod test/support/kube/kwok/go.sum
	cd test/support/kube/kwok && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' sigs.k8s.io/kwok/cmd/kwok
	touch $@

$(BIN)/helm: test/suites/clients/go.mod test/suites/clients/go.sum
	cd test/suites/clients && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' helm.sh/helm/v4/cmd/helm
	touch $@

# An OpenID issuer, of another module's parts.
$(BIN)/oidc: test/support/oidc/go.mod test/support/oidc/go.sum test/support/oidc/main.go
	cd test/support/oidc && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' .
	touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
