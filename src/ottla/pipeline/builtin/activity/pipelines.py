"""Sessions, top pages and click-through rates from three topics of user activity."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.pipeline import pipeline, to_parquet, topics

LATENESS = "2 minutes"
TIME_TO_CLICK = "10 minutes"
TOP = 10

views = topics(
    "activity.views",
    schema="user string not null, page string not null, referrer string, at timestamp not null",
    watermark=("at", LATENESS),
)
searches = topics(
    "activity.searches",
    schema="search string not null, user string not null, query string not null, at timestamp not null",
    watermark=("at", LATENESS),
)
clicks = topics(
    "activity.clicks",
    schema="search string not null, user string not null, page string, position int, at timestamp not null",
    watermark=("at", LATENESS),
)


@pipeline(views, searches, clicks, to=to_parquet("activity/sessions", date="started"))
def sessions(views: DataFrame, searches: DataFrame, clicks: DataFrame) -> DataFrame:
    """The sessions of each user. A session ends after 30 minutes without activity."""
    activity = (
        _activity(views, "view").unionByName(_activity(searches, "search")).unionByName(_activity(clicks, "click"))
    )
    visits = activity.groupBy(F.session_window("at", "30 minutes").alias("session"), "user").agg(
        F.min("at").alias("started"),
        F.max("at").alias("ended"),
        *(F.count_if(F.col("kind") == kind).alias(name) for kind, name in _COUNTS.items()),
    )
    length = F.unix_timestamp("ended") - F.unix_timestamp("started")
    return visits.select("user", "started", "ended", length.alias("seconds"), *_COUNTS.values())


@pipeline(views, to=to_parquet("activity/top-pages", date="minute"))
def top_pages(views: DataFrame) -> DataFrame:
    """The ten most viewed pages of every minute."""
    counts = views.groupBy(F.window("at", "1 minute"), "page").agg(F.count("*").alias("views"))
    ranked = F.sort_array(F.collect_list(F.struct("views", "page")), asc=False)
    minutes = counts.groupBy(F.window(F.window_time("window"), "1 minute")).agg(
        F.sum("views").alias("total"), F.slice(ranked, 1, TOP).alias("top")
    )
    rows = minutes.select(F.col("window.start").alias("minute"), "total", F.posexplode("top").alias("place", "entry"))
    return rows.select("minute", "total", (F.col("place") + 1).alias("rank"), "entry.page", "entry.views")


@pipeline(searches, clicks, to=to_parquet("activity/click-through", date="started"))
def click_through(searches: DataFrame, clicks: DataFrame) -> DataFrame:
    """Every five minutes: the share of searches with a click within ten minutes, and the mean position of the click."""
    first = clicks.dropDuplicatesWithinWatermark(["search"]).select(
        F.col("search").alias("clicked"), F.col("at").alias("clicked_at"), "position"
    )
    in_time = F.expr(f"search = clicked and clicked_at >= at and clicked_at <= at + interval {TIME_TO_CLICK}")
    joined = searches.select("search", "at").join(first, in_time, "left_outer")
    return (
        joined.groupBy(F.window("at", "5 minutes"))
        .agg(
            F.count("*").alias("searches"),
            F.count("clicked").alias("clicked"),
            F.avg("position").alias("mean_position"),
        )
        .select(
            F.col("window.start").alias("started"),
            "searches",
            "clicked",
            (F.col("clicked") / F.col("searches")).alias("rate"),
            "mean_position",
        )
    )


_COUNTS = {"view": "views", "search": "searches", "click": "clicks"}


def _activity(rows: DataFrame, kind: str) -> DataFrame:
    return rows.select("user", "at", F.lit(kind).alias("kind"))
