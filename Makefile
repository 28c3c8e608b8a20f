GO ?= go
GOLANGCI = $(shell $(GO) env GOPATH)/bin/golangci-lint-coord

.PHONY: test check fmt vet lint generated race successions fuzz bench setup

## test: install what is missing, and run all tests under the race detector
test: setup
	scripts/test

## check: format, vet on every platform, lint, generated files
check: fmt vet lint generated

fmt:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "run gofmt -w on:"; echo "$$out"; exit 1; fi

vet:
	@for os in linux darwin freebsd windows; do echo "vet $$os"; GOOS=$$os CGO_ENABLED=0 $(GO) vet ./... || exit 1; done

lint: $(GOLANGCI)
	$(GOLANGCI) run ./...

$(GOLANGCI): internal/tools/go.mod internal/tools/go.sum
	$(GO) build -C internal/tools -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

generated:
	$(GO) mod tidy -diff
	$(GO) test -count=1 -run 'TestAPI|TestDocs' .

## race: the suite on memory and etcd, 20 times
race: setup
	$(GO) test -race -count=20 -timeout=60m ./conformance ./backend/...

## successions: kill a thousand servers, with real processes
successions:
	$(GO) test -race -count=1 -timeout=30m -run 'TestSuccessions' ./backend/socket -successions 1000

## fuzz: each fuzz test for half a minute
fuzz:
	for f in FuzzParse FuzzEscape; do $(GO) test ./backend -run '^$$' -fuzz "^$$f$$" -fuzztime 30s || exit 1; done
	for f in FuzzRequest FuzzReply FuzzRecord; do $(GO) test ./backend/socket -run '^$$' -fuzz "^$$f$$" -fuzztime 30s || exit 1; done

## bench: memory and etcd beside their peers
bench: setup
	scripts/bench

setup:
	scripts/setup
