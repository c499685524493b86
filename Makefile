# Millrace: every job of the project by one word. `make` alone lists them.
# Honours CARGO_TARGET_DIR; installs with apt only what is missing, and names it first.

target_dir := $(or $(CARGO_TARGET_DIR),target)
export MILLRACE_TARGET_DIR := $(target_dir)
toolchain := $(shell scripts/toolchain)
ifneq ($(toolchain),)
export RUSTUP_TOOLCHAIN := $(toolchain)
endif

.DEFAULT_GOAL := help
.PHONY: help setup setup-test setup-guest guest-test build install uninstall dist dist-test test compare plans bench nightly claims doc clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## install what build and compare need: C linker, PostgreSQL (no cluster is made)
	@scripts/setup build database

setup-test: ## the same, and the peers of tests and bench: libnfs, NFS-Ganesha, MariaDB, a browser, python3, g++
	@scripts/setup build database peers guest

setup-guest: ## install what the kernel guest needs: QEMU, open-iscsi, multipath-tools, nfs-common (no daemon is started)
	@scripts/setup build guest

guest-test: setup-guest ## the filer and the target under a stock kernel's NFS, iSCSI and FC clients, in a guest (three minutes)
	CI=true cargo test --locked -p millrace --test guest -- --test-threads=1
	CI=true cargo test --locked -p millrace --test guest fibre_channel -- --ignored

build: ## release binary and preload library, side by side
	@scripts/setup build
	MILLRACE_COMMIT=$$(scripts/commit) cargo build --release --locked -p millrace -p preload
	@echo "built: $(target_dir)/release/millrace and libmillrace_preload.so"

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
# Empty arguments are left out, so that `make install DESTDIR=` means the root.
places = --prefix "$(PREFIX)" --sysconf "$(SYSCONFDIR)" $(if $(DESTDIR),--destdir "$(DESTDIR)")

install: ## what make build made, with man pages, completions and the unit (PREFIX=/usr/local, SYSCONFDIR=/etc, DESTDIR=)
	@[ -x $(target_dir)/release/millrace ] || { echo "install: $(target_dir)/release/millrace is not built: make build" >&2; exit 2; }
	@rm -rf $(target_dir)/pages && $(target_dir)/release/millrace generate --man $(target_dir)/pages/man --completions $(target_dir)/pages/completions
	@scripts/install-tree --built $(target_dir)/release --pages $(target_dir)/pages $(places)

uninstall: ## remove it again, with the same words; a filer.toml that was changed stays
	@scripts/install-tree --remove $(places)

dist: ## packages: .deb, .rpm, a static binary, an OCI image, bill of materials, checksums (three release builds)
	@scripts/setup build dist
	@scripts/dist $(ARGS)

dist-test: ## installs them in fresh roots of Debian 12, 13 and Ubuntu, uses and removes them (needs root and a network)
	@scripts/setup dist dist-test
	@scripts/dist-test $(ARGS)

test: setup-test ## everything that must hold before a change lands
	@scripts/test

compare: setup build ## the main job: one PostgreSQL on local disk, over Direct NFS and, as root, over iSCSI
	$(target_dir)/release/millrace compare $(ARGS)

plans: setup build ## the five reports as plans, then their shapes with figures (an hour and a half; ARGS="--quick" for a look)
	@scripts/plans $(ARGS)

bench: setup-test build ## speed against raw TCP, libnfs and Ganesha, as ratios
	@scripts/bench $(ARGS)

nightly: setup-test build ## the long tests too, many seeds, fuzzing, bench, plans (hours); PART="client filer …" runs parts of it
	@scripts/setup nightly
	@scripts/nightly $(PART)

claims: setup build ## what the laboratory says of its own judgement, on a quiet host (three hours)
	cargo test --release --locked -p millrace --test compare claims:: -- --ignored --nocapture --test-threads=1

doc: ## reference of every crate, private items too
	RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --locked

clean: ## remove what was built
	cargo clean
	rm -rf fuzz/target
