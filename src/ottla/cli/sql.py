"""`ottla sql`: queries topics with Spark SQL."""

import contextlib
import os
from typing import Annotated

import typer

from ottla.cli.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, Json, key_values, single
from ottla.cli.output import note, on_terminal, print_table
from ottla.cli.pipeline import sentences

app = single()


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Spark SQL query; every topic is a table.", show_default=False)
    ],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Show at most N rows.")] = 100,
    master: Annotated[str, typer.Option("--master", metavar="URL", help="Spark master URL.")] = "local[*]",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="Setting of Spark; may be repeated.")
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
    json: Json = False,
) -> None:
    """Query topics with SQL. A table has the columns key, value, topic, partition, offset and timestamp, and one column
    for each field if values are JSON objects. Put names with dots or dashes in backquotes.

    With --json each row is one JSON object on a line of its own.

    \b
    Examples:
      ottla sql "select page, count(*) from clicks where timestamp > now() - interval 1 hour group by page"
      ottla sql 'select * from `activity.views` limit 5' --json
    """
    with sentences():
        _answer(query, limit, master, key_values(conf, "--conf"), bootstrap_server, json)


def _answer(query: str, limit: int, master: str, conf: dict[str, str], bootstrap_server: str, json: bool) -> None:
    from ottla.pipeline.brokers import Cluster
    from ottla.pipeline.session import SHORT_RUN, SessionSettings, cache_directory, require_spark, start_session
    from ottla.pipeline.view import LiveView, PlainView

    topics = Cluster(bootstrap_server).topics()
    require_spark(os.environ)
    from ottla.pipeline.topic_tables import PUSHDOWN, answer_rows, run_query

    view = LiveView() if on_terminal() else PlainView()
    log = cache_directory(os.environ) / "sql.log"
    with view.waiting("Starting Spark"):
        spark = start_session(SessionSettings("ottla sql", log, master, {**SHORT_RUN, **PUSHDOWN, **conf}))
    try:
        with view.waiting("Reading"):
            columns, rows, more = answer_rows(run_query(spark, query, topics, bootstrap_server), limit, json)
    finally:
        # Ctrl-C during a call breaks the connection to Spark, and then stop() fails too.
        with contextlib.suppress(Exception):
            spark.stop()
    if json:
        print(*(row[0] for row in rows), sep="\n", end="\n" if rows else "")
    else:
        print_table(columns, rows)
    if more:
        note(f"There are more than {limit} rows; a larger --limit shows them.")
