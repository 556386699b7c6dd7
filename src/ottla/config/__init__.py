"""One table of all Kafka config keys, and the modules that use it.

`keys` has the rows. `values` parses and formats values. `broker` and `topic` compute the values in effect. `describe`
and `alter` serve Kafka's config requests. `load` reads server.properties and the environment. `document` writes the
reference page.
"""
