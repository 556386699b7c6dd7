# The project's commands. Each installs what it needs into .venv, once: `make run` the broker, `make demo` and `make bench` Spark
# too, `make test` and `make check` everything.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One stamp per part. `dev` contains `spark`, which contains `run`, so that `make run` after `make test` installs nothing.
RUN    := $(VENV)/.run
SPARK  := $(VENV)/.spark
DEV    := $(VENV)/.dev

KAFKA_JARS ?= $(wildcard $(CURDIR)/build/kafka-jars)
SPARK_JARS ?= $(wildcard $(CURDIR)/build/spark-jars)

.PHONY: setup run test test-portable test-spark demo torture hostile sim check bench profile lock docs kafka-jars spark-jars clean

setup: $(DEV)

$(RUN) $(SPARK) $(DEV): $(VENV)/.%: requirements/%.lock pyproject.toml
	@$(PYTHON) requirements/install.py $*

run: $(RUN)
	@$(BIN)/ottla serve --data-dir data --listen 127.0.0.1:9092

test: $(DEV)
	@KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m tests $(ARGS)

# The same tests on the portable forms of system calls, which macOS uses (docs/decisions/0016).
test-portable: $(DEV)
	@OTTLA_PORTABLE=1 KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m tests $(ARGS)

# For so many minutes each: transactional copiers and a broker, killed at random, and is the copy exact? Then a cluster whose
# brokers and ZooKeeper are killed, paused and cut off, and were its clients told the truth? `make torture SEED=7` repeats a
# schedule, `make torture BROKERS=5 STORE=sqlite` another cluster. With the jars in place, Kafka's own copier takes part and
# its dump-log reads the result.
MINUTES ?= 1
BROKERS ?= 3
STORE ?= zookeeper
torture: $(DEV)
	@KAFKA_JARS=$(KAFKA_JARS) $(BIN)/python -m tests.torture --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)
	@$(BIN)/python -m tests.nemesis --minutes $(MINUTES) --brokers $(BROKERS) --store $(STORE) $(if $(SEED),--seed $(SEED))

# Random well-formed requests of every API, then as many damaged ones, against one broker, while an ordinary client works.
# `make hostile SEED=7` repeats a run.
REQUESTS ?= 1000000
hostile: $(DEV)
	@$(BIN)/python -m tests.hostile --requests $(REQUESTS) $(if $(SEED),--seed $(SEED)) $(ARGS)

# A cluster on virtual time, with faults that a seed chooses: `make sim SEEDS=1000` runs many, `make sim SEED=7` shows one.
SEEDS ?= 300
sim: $(RUN)
	@$(BIN)/python -m sim $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(ARGS)

# A broker, traffic, the activity pipelines and a live view; ends with build/demo/report.html.
demo: $(SPARK)
	@$(BIN)/ottla pipeline demo --dir build/demo $(ARGS)

# The long Spark set too: faults, every kind of topic, restarts. Takes some minutes; TESTS=tests/spark/test_stream.py is a part.
test-spark: $(DEV)
	@OTTLA_SPARK_JARS=$(SPARK_JARS) $(BIN)/python -m pytest -m "spark or not spark" $(or $(TESTS),tests/spark tests/pipeline) $(ARGS)

# Needs Maven and Java. With the jars in place, `make test` also runs Kafka's own tools against Ottla.
kafka-jars: build/kafka-jars

build/kafka-jars: tests/compat/kafka/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@

# Spark's own Kafka connector. With the jars in place, `make test-spark` also compares what both read.
spark-jars: build/spark-jars

build/spark-jars: tests/compat/spark/pom.xml
	mvn --quiet --batch-mode --file $< dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/$@

check: $(DEV)
	$(BIN)/ruff check src tests bench examples sim requirements
	$(BIN)/ruff format --check src tests bench examples sim requirements
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin src
	$(BIN)/lint-imports

# Where the microseconds of one request go.
profile: $(RUN)
	@$(BIN)/python -m bench.stages

# Ottla beside Apache Kafka on this machine; `make bench ONLY=produce` runs one part, ONLY="produce consume" two, ONLY=spark
# that of Spark's connector, with ARGS="--spark-rows 1000000" for another size. Needs Maven and Java.
bench: $(SPARK) kafka-jars spark-jars
	@$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY)) $(ARGS)

docs: $(RUN)
	$(BIN)/python -m ottla.config.document > docs/configuration.md
	$(BIN)/python -m ottla.handlers.document > docs/protocol.md
	$(BIN)/python -m ottla.cluster.document > docs/elections.md

# Versions and hashes only, no addresses. What is locked stays as it is unless pyproject.toml forbids it; `make lock ARGS=--upgrade`
# takes the newest versions. All parts have the versions of dev.lock.
COMPILE = $$tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
	  --no-emit-index-url --no-emit-find-links pyproject.toml
lock:
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && $(PYTHON) -m venv $$tools && \
	$$tools/bin/pip install --quiet --disable-pip-version-check uv && \
	$(COMPILE) --group dev --all-extras -o requirements/dev.lock $(ARGS) && \
	$(COMPILE) --group build --extra spark --extra zookeeper -c requirements/dev.lock -o requirements/spark.lock $(ARGS) && \
	$(COMPILE) --group build -c requirements/dev.lock -o requirements/run.lock $(ARGS) && \
	$(COMPILE) --extra zookeeper -c requirements/dev.lock -o requirements/container.lock $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
