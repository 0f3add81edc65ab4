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

# Against other implementations: needs python3.
interop:
	GAIA_INTEROP=1 go test -count=1 -run Interop -v ./judge

generate:
	go generate ./...
