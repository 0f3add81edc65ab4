.PHONY: check test bench fuzz interop generate

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

# Against other implementations: those of COSIGN, built once into INTEROP (two minutes each), PYTHON_PACKAGES,
# installed once into it (half a minute), INSPECT, which reads exports, likewise, and python3 and node where they are there.
# What is not there is skipped, and said.
COSIGN ?= v2.6.5 v3.1.3
PYTHON_PACKAGES ?= huggingface_hub==2.4.0 pyarrow==26.0.1 pandas==3.1.1 securesystemslib==1.6.0 cryptography==50.0.2
INSPECT ?= inspect_ai==0.3.285
INTEROP ?= $(shell go env GOPATH)/bin/gaia-interop
interop:
	@programs=; for v in $(COSIGN); do \
		dir=$(INTEROP)/cosign-$$v; \
		[ -x $$dir/cosign ] || CGO_ENABLED=0 GOBIN=$$dir go install github.com/sigstore/cosign/$${v%%.*}/cmd/cosign@$$v || \
			{ echo "SKIPPED: cosign $$v cannot be built, so it verifies nothing"; continue; }; \
		programs=$${programs:+$$programs:}$$dir/cosign; \
	done; \
	venv=$(INTEROP)/python-$$(echo $(PYTHON_PACKAGES) | tr ' =' '_-'); \
	$$venv/bin/python -c 'import huggingface_hub, pyarrow, pandas, securesystemslib, cryptography' 2>/dev/null || \
		{ rm -rf $$venv && python3 -m venv $$venv && $$venv/bin/python -m pip install -q --disable-pip-version-check $(PYTHON_PACKAGES); } || \
		echo "SKIPPED: $(PYTHON_PACKAGES) cannot be installed, so datasets and envelopes are not compared with what Python reads and writes"; \
	inspect=$(INTEROP)/python-$$(echo $(INSPECT) | tr ' =' '_-'); \
	$$inspect/bin/python -c 'import inspect_ai' 2>/dev/null || \
		{ rm -rf $$inspect && python3 -m venv $$inspect && $$inspect/bin/python -m pip install -q --disable-pip-version-check $(INSPECT); } || \
		{ inspect=; echo "SKIPPED: $(INSPECT) cannot be installed, so no export is read with it"; }; \
	GAIA_INTEROP=1 GAIA_COSIGN=$$programs GAIA_PYTHON=$$venv/bin/python GAIA_INSPECT=$${inspect:+$$inspect/bin/python} \
		go test -count=1 -run Interop -v ./judge ./submit ./submit/export ./trajectory ./trajectory/witness ./loader ./cmd/gaia
	@command -v python3 >/dev/null || echo "SKIPPED: there is no python3 here, so what the fuzzer makes up is not put to Python"
	GAIA_INTEROP=1 go test -run '^$$' -fuzz '^FuzzQuestionScorer$$' -fuzztime $(FUZZTIME) -fuzzminimizetime 1x ./judge

generate:
	go generate ./...
