# The project's commands. `make run` and `make test` set up everything they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

KAFKA_JARS ?= $(wildcard $(CURDIR)/build/kafka-jars)
SPARK_JARS ?= $(wildcard $(CURDIR)/build/spark-jars)

.PHONY: setup run test test-spark demo torture hostile sim check bench profile lock docs kafka-jars spark-jars clean

setup: $(STAMP)

$(STAMP): requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Ottla needs Python 3.11 or newer; run make PYTHON=/path/to/python3.11" if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing Ottla into $(VENV) (once; takes a minute or two, Spark is large) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

run: setup
	@$(BIN)/ottla serve --data-dir data --listen 127.0.0.1:9092

test: setup
	@KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

# For so many minutes each: transactional copiers and a broker, killed at random, and is the copy exact? Then a cluster whose
# brokers and ZooKeeper are killed, paused and cut off, and were its clients told the truth? `make torture SEED=7` repeats a
# schedule, `make torture BROKERS=5 STORE=sqlite` another cluster. With the jars in place, Kafka's own copier takes part and
# its dump-log reads the result.
MINUTES ?= 1
BROKERS ?= 3
STORE ?= zookeeper
torture: setup
	@KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m tests.torture --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)
	@$(BIN)/python -m tests.nemesis --minutes $(MINUTES) --brokers $(BROKERS) --store $(STORE) $(if $(SEED),--seed $(SEED))

# Random well-formed requests of every API, then as many damaged ones, against one broker, while an ordinary client works.
# `make hostile SEED=7` repeats a run.
REQUESTS ?= 1000000
hostile: setup
	@$(BIN)/python -m tests.hostile --requests $(REQUESTS) $(if $(SEED),--seed $(SEED)) $(ARGS)

# A cluster on virtual time, with faults that a seed chooses: `make sim SEEDS=1000` runs many, `make sim SEED=7` shows one.
SEEDS ?= 300
sim: setup
	@$(BIN)/python -m sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

# A broker, traffic, the activity pipelines and a live view; ends with build/demo/report.html.
demo: setup
	@$(BIN)/ottla pipeline demo --dir build/demo $(ARGS)

# The long Spark set too: faults, every kind of topic, restarts. Takes some minutes; TESTS=tests/spark/test_stream.py is a part.
test-spark: setup
	@OTTLA_SPARK_JARS=$(SPARK_JARS) $(BIN)/python -m pytest -m "spark or not spark" $(or $(TESTS),tests/spark tests/pipeline) $(ARGS)

# Needs Maven and Java. With the jars in place, `make test` also runs Kafka's own tools against Ottla.
kafka-jars: build/kafka-jars

build/kafka-jars: tests/compat/kafka/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@

# Spark's own Kafka connector. With the jars in place, `make test-spark` also compares what both read.
spark-jars: build/spark-jars

build/spark-jars: tests/compat/spark/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@

check: setup
	$(BIN)/ruff check src tests bench examples sim
	$(BIN)/ruff format --check src tests bench examples sim
	$(BIN)/mypy
	$(BIN)/lint-imports

# Where the microseconds of one request go.
profile: setup
	@$(BIN)/python -m bench.stages

# Ottla beside Apache Kafka on this machine; `make bench ONLY=produce` runs one part, ONLY="produce consume" two, ONLY=spark
# that of Spark's connector, with ARGS="--spark-rows 1000000" for another size. Needs Maven and Java.
bench: setup kafka-jars spark-jars
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

docs: setup
	$(BIN)/python -m ottla.config.document > docs/configuration.md
	$(BIN)/python -m ottla.handlers.document > docs/protocol.md
	$(BIN)/python -m ottla.cluster.document > docs/elections.md

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links --group dev --all-extras pyproject.toml -o requirements/dev.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
