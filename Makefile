# The development tasks. Each does its own set-up. CI calls the same targets.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# cmake and ninja, if the machine has none: ci/setup.sh installs them.
export PATH := $(PATH):$(CURDIR)/$(VENV)/tools

.PHONY: help demo test unit thorough lint types contract docs screens site check workflows requirements package models fuzz speed speed-build clean

help:                ## what one can do here
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /make \1\t/' | expand -t 18

$(VENV)/.installed: pyproject.toml ci/setup.sh ci/constraints.txt
	PYTHON="$(PYTHON)" ci/setup.sh $(VENV)

demo: $(VENV)/.installed   ## make a fork and its series, verify it, break it in three ways
	rm -rf build/demo
	$(BIN)/patchstack demo build/demo

test: $(VENV)/.installed   ## run every test (ARGS=… are options of pytest)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(ARGS)

unit: $(VENV)/.installed   ## run the unit tests alone, at each change (ARGS=… are options of pytest)
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile tests/unit $(ARGS)

thorough: $(VENV)/.installed   ## every test, and in full what make test samples: kills at every step, all examples
	PATCHSTACK_THOROUGH=1 $(BIN)/python -m pytest --numprocesses auto --dist loadfile $(ARGS)

lint: $(VENV)/.installed   ## ruff: lint and format; and the words: German patterns may only become fewer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python ci/words.py

types: $(VENV)/.installed  ## mypy, strict, tests included
	$(BIN)/mypy

contract: $(VENV)/.installed  ## imports run downward only
	$(BIN)/lint-imports

docs: $(VENV)/.installed   ## write the generated reference and the screens in the docs
	$(BIN)/python ci/architecture.py
	$(BIN)/python ci/pictures.py
	$(BIN)/python ci/reference.py
	$(BIN)/python ci/gate_kinds.py
	$(BIN)/python ci/screens.py
	$(BIN)/python ci/step_summary.py
	$(BIN)/python ci/other_tools.py
	$(BIN)/python ci/schemas.py
	$(BIN)/python ci/documents.py
	$(BIN)/python ci/error_codes.py

screens: $(VENV)/.installed  ## type the commands of every page, those that compile too, and write down what they print
	$(BIN)/python ci/screens.py --all

workflows: $(VENV)/.installed  ## actionlint and zizmor: this repository's workflows, and those of the docs
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/actionlint
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/actionlint docs/examples/ci/*.yml
	$(BIN)/zizmor --offline --pedantic --quiet . docs/examples/ci/*.yml

requirements: $(VENV)/.installed  ## lock what the GitHub Action installs, by hash (needs the network)
	VENV=$(VENV) sh ci/lock.sh

package: $(VENV)/.tools      ## sdist and wheel into dist/, with locked tools
	$(VENV)/.tools/bin/python -I -m hatchling build --directory dist

$(VENV)/.tools: ci/requirements/dist.txt
	"$(PYTHON)" -m venv --clear $(VENV)/.tools
	$(VENV)/.tools/bin/python -I -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--require-hashes -r ci/requirements/dist.txt

site: $(VENV)/.site        ## the documentation as a site, into build/site; warnings are errors, every link is checked
	rm -rf build/site
	$(VENV)/.site/bin/python -I -m sphinx --builder html --conf-dir ci/site --fail-on-warning --keep-going --quiet \
		--doctree-dir build/doctrees docs build/site
	$(VENV)/.site/bin/python -I ci/site/links.py build/site

$(VENV)/.site: ci/requirements/site.txt
	"$(PYTHON)" -m venv --clear $(VENV)/.site
	$(VENV)/.site/bin/python -I -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--require-hashes -r ci/requirements/site.txt

check: lint types contract workflows   ## lint, types, import contract, workflows, and that reference and screens are up to date
	$(BIN)/python ci/architecture.py --check
	$(BIN)/python ci/pictures.py --check
	$(BIN)/python ci/reference.py --check
	$(BIN)/python ci/gate_kinds.py --check
	$(BIN)/python ci/screens.py --check
	$(BIN)/python ci/step_summary.py --check
	$(BIN)/python ci/schemas.py --check
	$(BIN)/python ci/documents.py --check
	$(BIN)/python ci/error_codes.py --check

fuzz: $(VENV)/.installed   ## the apply fuzz against git, long (FUZZ=20000 examples)
	PATCHSTACK_FUZZ_EXAMPLES=$(or $(FUZZ),20000) $(BIN)/python -m pytest tests/fuzz

speed: $(VENV)/.installed  ## verify against git, side by side
	$(BIN)/python -m benchmarks.verify_speed

speed-build: $(VENV)/.installed  ## build against cmake by hand, side by side (SPEED="--engine host")
	$(BIN)/python -m benchmarks.build_speed $(SPEED)

models: $(VENV)/.installed ## the tiny models that this project's own series is gated with, into build/models
	mkdir -p build/models
	for a in llama qwen3moe qwen35 qwen35moe; do $(BIN)/python -m tests.support.tiny_gguf $$a build/models/$$a.gguf || exit; done

clean:               ## remove what the targets made
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
