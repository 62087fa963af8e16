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

# Prints the lines of go test and the output of failed tests, with the time that all took. A
# skipped test fails, too: every test is required.
GATE := $(GO) run ./test/support/gate

.PHONY: test
test: unit system ## all tests; the first run builds Kubernetes

# The race detector makes a test up to ten times as slow, and finds nothing where no two goroutines
# share memory. PLAIN packages start no goroutine, as makefile_test.go checks: they run without it. DEEP
# packages have many random inputs and run twice: all inputs without the race detector, one fifth of
# them with it, and so do the tests DEEPHUB of the hub, which send requests of all sorts, one after the
# other. VOLUME tests of the hub mostly copy large values, or send thousands of requests one after the
# other: only make soak runs them with it.
PLAIN  := $(addprefix ./internal/,agent/credential agent/decide agent/diagnosis agent/fields agent/health agent/immutable agent/manifest \
  hub/auth/bearer hub/auth/enroll hub/engine/aggregate hub/engine/exports hub/engine/expression hub/engine/helm hub/engine/kindrules hub/engine/mentions \
  hub/engine/objectstate hub/engine/placement hub/engine/preview hub/engine/progress hub/engine/prune hub/engine/quota hub/engine/ready \
  hub/engine/refs hub/engine/rollup hub/engine/rules hub/engine/selectors hub/engine/unreturned hub/engine/upsync \
  hub/kinds/binding hub/kinds/columns hub/kinds/downsync hub/kinds/openapi hub/kinds/protobuf hub/kinds/registry hub/kinds/schemacompat \
  hub/kinds/schemacost hub/kinds/schemaversion hub/kubeapi/read/pieces hub/kubeapi/textual \
  hub/storage/logidentity lib/fieldset lib/jsonscan lib/jsonsplice lib/quantity lib/suggest lib/watchdog \
  protocol/key protocol/ownership protocol/route protocol/rulepath) ./views
DEEP   := $(addprefix ./internal/,agent agent/fencing agent/worklist agent/store hub/auth hub/controllers \
  hub/engine/summaries hub/kinds/builtin hub/kinds/custom hub/kubeapi/read hub/kubeapi/write hub/storage/table protocol/wire)
DEEPHUB := ^(TestMatrix|TestRandomLife)$$
VOLUME := ^(TestDeepBodies|TestFloods|TestForeignGrants|TestFullHub|TestGrantsOnExportViews|TestManyLargeBodies|TestManyTokens|TestProvidersReachTheirExportView|TestReturnedStatusAndFullLog|TestSlowBackup)$$

# The longest packages come first, so that none runs alone at the end. make lint does what go vet would.
# GOGC=200 takes a seventh less time. A binary with the race detector waits a second before it
# exits, unless GORACE has it exit at once.
UNIT := $(NICE) $(GO) test -json -vet=off -ldflags='-s -w' -timeout 40m $(GOTESTFLAGS)
.PHONY: unit raced plain volume pure
unit: raced plain ## the tests of the packages, with the race detector where it can find something
raced: gcc
	all=$$($(GO) list ./internal/... ./apis/...) && plain=$$($(GO) list $(PLAIN)) || exit 1; \
	CGO_ENABLED=1 GOGC=200 GORACE=atexit_sleep_ms=0 $(UNIT) -race -p 3 -parallel 8 -skip '$(VOLUME)' \
	  ./internal/hub ./internal/agent $$(echo "$$all" | grep -vxF "$$plain") | $(GATE) raced
plain:
	@$(MAKE) --no-print-directory -j2 volume pure
volume:
	GOGC=200 $(UNIT) -run '$(VOLUME)|$(DEEPHUB)' ./internal/hub | $(GATE) volume
pure:
	GOGC=200 $(UNIT) -p 2 $(DEEP) $(PLAIN) | $(GATE) pure

# The system tests run the binaries, which the test cache does not know. A test starts whole
# clusters and then mostly waits, so four packages run at once, with three tests of each. The longest
# come first, so that none runs alone at the end.
LONGEST := ./test/suites/faults ./test/suites/ownership ./test/suites/network ./test/suites/operator ./test/suites/e2e ./test/suites/agent ./test/suites/kinds
# Helm, Flux and Argo CD give up requests after times of their own, so their tests run before the rest,
# which may take all processors. All tests are compiled before any of them starts: a compiler beside
# them delays the systems under test.
.PHONY: system
system: build static kube peers clock previous compiled $(BIN)/helm $(BIN)/oidc ## the guards on the source, and tests of the whole system on real clusters
	@$(MAKE) --no-print-directory -k clients whole

# What make system runs once all is built.
.PHONY: whole clients
whole:
	$(NICE) $(GO) test -json -vet=off -count=1 -p 4 -parallel 3 -timeout 60m $(LONGEST) . ./cmd/... ./test/... | $(GATE) whole
clients:
	$(NICE) $(GO) vet -C examples ./...
	$(NICE) $(GO) test -C test/suites/clients -json -vet=off -count=1 -timeout 40m -ldflags='-s -w' ./... | $(GATE) clients
	$(NICE) $(GO) test -C test/suites/clients/argo -json -vet=off -count=1 -timeout 40m -ldflags='-s -w' ./... | $(GATE) argo

# COMPILE builds the packages of tests into the build cache. It does not link: the cache keeps no test binaries.
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

# Debian packages that system tests use for networks and proxies.
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

# The hub and agent of the previous minor version; the current ones must work with them. That commit may
# keep its version in internal/version, so -X sets both variables: the linker ignores a missing one. If a
# checkout lacks the commit, the target builds HEAD~1, or else HEAD.
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

# Each round draws fresh seeds. A test that fails logs the command that replays it: ORRERY_SEED=N go test PACKAGE -run TEST.
# Random tests have 3 times as many seeds, rounds and inputs in packages, and 16 times as many in suites.
.PHONY: soak
soak: build static kube peers clock previous gcc $(BIN)/oidc $(BIN)/kustomize-controller ## all tests again and again, with fresh seeds and more inputs, for SOAK (default 1h)
	end=$$(($$(date +%s) + $$(echo $(or $(SOAK),1h) | sed 's/h/*3600/; s/m/*60/; s/s//'))); \
	replay='to replay a failure, run the command after "replay:" in the output of the test'; \
	while [ $$(date +%s) -lt $$end ]; do \
	  ORRERY_SEED=fresh ORRERY_SOAK=3 $(GO) test -json -count=1 -timeout 60m ./internal/hub ./internal/agent ./internal/... ./apis/... ./views | $(GATE) soak, packages || { echo "$$replay"; exit 1; }; \
	  ORRERY_SEED=fresh CGO_ENABLED=1 $(GO) test -race -json -count=1 -timeout 60m -run '$(VOLUME)' ./internal/hub | $(GATE) soak, volume || { echo "$$replay"; exit 1; }; \
	  ORRERY_SEED=fresh ORRERY_SOAK=16 $(GO) test -tags soak -json -count=1 -p 1 -timeout 60m ./test/... | $(GATE) soak, suites || { echo "$$replay"; exit 1; }; \
	done

.PHONY: bench
bench: build kube ## the benchmarks: a table, and JSON in bench/results
	$(GO) run ./test/bench

# --- checks ------------------------------------------------------------------

.PHONY: lint
lint: ## golangci-lint with .golangci.yml, and the gates on readability
	$(NICE) $(TOOL) golangci-lint run
	cd test/suites/clients && $(NICE) $(TOOL) golangci-lint run
	cd test/suites/clients/argo && $(NICE) $(TOOL) golangci-lint run
	cd examples && $(NICE) $(TOOL) golangci-lint run
	cd tools && $(NICE) $(TOOL) golangci-lint run
	$(NICE) $(GO) test -C tools -vet=off ./...
	$(NICE) $(GO) run -C tools ./gates

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

# The controller of Flux that applies objects. It takes minutes to compile; only make soak uses it.
$(BIN)/kustomize-controller: test/support/flux/go.mod test/support/flux/go.sum
	cd test/support/flux && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' github.com/fluxcd/kustomize-controller
	touch $@

# An OpenID issuer, of another module's parts.
$(BIN)/oidc: test/support/oidc/go.mod test/support/oidc/go.sum test/support/oidc/main.go
	cd test/support/oidc && $(NICE) $(GO) build -o $(CURDIR)/$@ -ldflags '-s -w' .
	touch $@

.PHONY: clean
clean: ## remove what was built
	rm -rf $(BIN)
