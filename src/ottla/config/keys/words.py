"""Short names of enum members, for the rows of the table."""

from ottla.config.definition import Effect, Importance, Kind, Update

BOOLEAN, STRING, INT, SHORT, LONG = Kind.BOOLEAN, Kind.STRING, Kind.INT, Kind.SHORT, Kind.LONG
DOUBLE, LIST, CLASS, PASSWORD = Kind.DOUBLE, Kind.LIST, Kind.CLASS, Kind.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
PER_BROKER, CLUSTER_WIDE = Update.PER_BROKER, Update.CLUSTER_WIDE
SERVED = Effect.SERVED
