"""`ottla pipeline ...`"""

import contextlib
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.cli.command_error import CommandError
from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, family, key_values
from ottla.cli.output import Cell, on_terminal, print_json, print_table, say
from ottla.pipeline.failures import PipelineError

app = family("Run and watch pipelines: Spark functions from topics to topics and files.")

TargetName = Annotated[
    str,
    typer.Argument(
        metavar="FILE[:NAME]",
        help="A Python file or a built-in pipeline; with :NAME, one pipeline of it.",
        show_default=False,
    ),
]
BuiltIn = Annotated[str, typer.Argument(metavar="BUILTIN", help="See `ottla pipeline list`.", show_default=False)]
Directory = Annotated[Path, typer.Option("--dir", metavar="DIR", help="Directory for relative paths and checkpoints.")]
Parameters = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Parameter of the file; may be repeated.")
]
HERE = Path()


@contextlib.contextmanager
def sentences() -> Iterator[None]:
    """Turn a PipelineError into the one-sentence error of a command."""
    try:
        yield
    except PipelineError as error:
        raise CommandError(str(error)) from error


@app.command()
def run(
    target: TargetName,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark master URL.")] = "local[*]",
    once: Annotated[bool, typer.Option("--once", help="Process the records that exist now, then stop.")] = False,
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="INTERVAL", help="Time between batches, such as '10 seconds'.")
    ] = "1 second",
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", min=0, help="Stop after N seconds.", show_default=False)
    ] = None,
    directory: Directory = HERE,
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark; may be repeated.")
    ] = None,
    parameters: Parameters = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Run the pipelines of a file until Ctrl-C. The next run continues where this one stopped.

    \b
    Examples:
      ottla pipeline run clicks.py
      ottla pipeline run clicks.py:clicks_per_page --once
      ottla pipeline run activity --master spark://host:7077
    """
    settings_of_spark = key_values(conf, "--conf")
    with sentences():
        loaded = _load(target, parameters)
        from ottla.pipeline.queries import RunSettings
        from ottla.pipeline.runner import Run, spark_log
        from ottla.pipeline.session import SessionSettings

        base = directory.absolute()
        session = SessionSettings(f"ottla {loaded.label}", spark_log(loaded, base), master, settings_of_spark)
        settings = RunSettings(bootstrap_server, base, trigger, once)
        states = Run(loaded, settings, session, _view(), seconds).execute()
    for state in states:
        dead = f", {state.dead_letters:,} dead letters" if state.dead_letters else ""
        say(f"{state.pipeline}: {state.rows:,} rows in {state.batches:,} batches{dead}")


@app.command("list")
def list_pipelines(
    target: Annotated[str | None, typer.Argument(metavar="[FILE]", help="A Python file.", show_default=False)] = None,
    parameters: Parameters = None,
    json: Json = False,
) -> None:
    """List the pipelines of a file. Without a file, list the built-in pipelines.

    \b
    Examples:
      ottla pipeline list
      ottla pipeline list clicks.py
    """
    from ottla.pipeline.loading import BUILT_IN

    if target is None:
        if json:
            print_json([{"name": name, "summary": summary} for name, summary in BUILT_IN.items()])
        else:
            print_table(["NAME", "SUMMARY"], list(BUILT_IN.items()))
        return
    with sentences():
        loaded = _load(target, parameters)
    rows = [(each.name, ",".join(each.topics), each.summary) for each in loaded.pipelines]
    if json:
        print_json([{"name": name, "topics": topics.split(","), "summary": text} for name, topics, text in rows])
    else:
        print_table(["NAME", "TOPICS", "SUMMARY"], rows)


@app.command()
def describe(
    target: TargetName, directory: Directory = HERE, parameters: Parameters = None, json: Json = False
) -> None:
    """Show the sources, the sinks and the checkpoints of pipelines.

    \b
    Example:
      ottla pipeline describe clicks.py:clicks_per_page
    """
    from ottla.pipeline.describing import describe_pipeline

    with sentences():
        loaded = _load(target, parameters)
        documents = [describe_pipeline(each, loaded.label, directory.absolute()) for each in loaded.pipelines]
    if json:
        print_json(documents)
        return
    for number, document in enumerate(documents):
        if number:
            print()
        _print_description(document)


@app.command()
def generate(
    name: BuiltIn,
    records: Annotated[
        int | None, typer.Option("--records", metavar="N", min=1, help="Stop after N records.", show_default=False)
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", metavar="N", min=0.1, help="Records per second.", show_default="no limit")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", metavar="N", min=0, help="Stop after N seconds.", show_default=False)
    ] = None,
    start: Annotated[
        datetime | None,
        typer.Option("--start", metavar="WHEN", help="Time of the first event, UTC.", show_default="today"),
    ] = None,
    garbage: Annotated[
        float, typer.Option("--garbage", metavar="SHARE", min=0, max=1, help="Share of values that do not parse.")
    ] = 0.0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same events.")] = 1,
    parameters: Parameters = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Write test events for a built-in pipeline. The times of the events increase from --start on.

    \b
    Examples:
      ottla pipeline generate activity --records 50000
      ottla pipeline generate logs --rate 500
    """
    from ottla.pipeline.loading import load_part
    from ottla.pipeline.traffic import Pace, send

    begin = (start or datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)).replace(tzinfo=UTC)
    with sentences():
        module = load_part(name, "traffic", key_values(parameters, "--set"))
        pace = Pace(records, rate, seconds, garbage)
        with contextlib.suppress(KeyboardInterrupt):
            count = send(module.events(begin, seed), module.TOPICS, bootstrap_server, pace)
            say(f"Sent {count:,} records to {', '.join(module.TOPICS)}.")


@app.command()
def report(
    name: BuiltIn,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="File to write.", show_default="BUILTIN.html")
    ] = None,
    directory: Directory = HERE,
    parameters: Parameters = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Write the results of a built-in pipeline as one HTML page with plots.

    \b
    Example:
      ottla pipeline report activity --output activity.html
    """
    from ottla.pipeline.session import require_packages

    with sentences():
        require_packages()
        from ottla.pipeline.reporting import build_report

        page = build_report(name, directory.absolute(), bootstrap_server, key_values(parameters, "--set"))
    target = output or Path(f"{name}.html")
    page.write(target)
    say(f"Wrote {target.absolute()}.")


@app.command()
def demo(
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", min=5, help="Seconds to run after the start.")
    ] = 60.0,
    directory: Annotated[
        Path, typer.Option("--dir", metavar="DIR", help="Directory of the demo; an earlier demo in it is deleted.")
    ] = Path("ottla-demo"),
) -> None:
    """Run a demonstration: a broker, test events, the activity pipelines and, at the end, a report.

    \b
    Example:
      ottla pipeline demo --seconds 120
    """
    from ottla.pipeline.session import require_packages

    with sentences():
        require_packages()
        from ottla.pipeline.demo import run_demo

        page = run_demo(directory.absolute(), seconds, _view(), os.environ)
    say(f"The report is {page}: open it in a browser.")


@app.command()
def status(
    target: TargetName,
    directory: Directory = HERE,
    parameters: Parameters = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Show the state, the lag and the end of the last run of pipelines. Does not start Spark.

    \b
    Example:
      ottla pipeline status clicks.py
    """
    from ottla.pipeline.brokers import Cluster
    from ottla.pipeline.describing import dead_letter_status, pipeline_status

    with sentences():
        loaded = _load(target, parameters)
        cluster = Cluster(bootstrap_server)
        base = directory.absolute()
        found = [pipeline_status(each, loaded.label, base, cluster) for each in loaded.pipelines]
        shared = None if loaded.others else dead_letter_status(loaded.label, base, cluster)
        if shared is not None:
            found.append(shared)
    if json:
        print_json(found)
        return
    rows: list[list[Cell]] = []
    for each in found:
        rows += [
            [
                each["name"],
                query["sink"],
                each["state"],
                query["rows"],
                query["lag"],
                query["batch_ms"],
                query["state_rows"],
            ]
            for query in each["queries"]
        ]
    print_table(["PIPELINE", "TO", "STATE", "ROWS", "LAG", "BATCH-MS", "STATE-ROWS"], rows)
    for each in found:
        if each["reason"]:
            print(each["reason"])


def _load(target: str, parameters: list[str] | None) -> Any:
    from ottla.pipeline.loading import load_target
    from ottla.pipeline.session import require_packages

    require_packages()
    return load_target(target, key_values(parameters, "--set"))


def _view() -> Any:
    from ottla.pipeline.view import LiveView, PlainView

    return LiveView() if on_terminal() else PlainView()


def _print_description(document: dict[str, Any]) -> None:
    print(document["name"] + (f": {document['summary']}" if document["summary"] else ""))
    for source in document["sources"]:
        print(f"  reads       {', '.join(source['topics'])}, from the {source['starting']} record on")
        print(f"  schema      {source['schema'] or 'none: values are bytes'}")
        if source["watermark"]:
            print(f"  watermark   {source['watermark']}")
        if source["dead_letters"]:
            print(f"  dead to     {', '.join(source['dead_letters'])}")
    for sink in document["sinks"]:
        print(f"  writes      {sink['description']} ({sink['mode']})")
    print(f"  checkpoint  {document['checkpoint']}")
