"""One table of every Kafka config key, and everything that reads it.

`keys` holds the rows; `values` turns text into typed values and back; `broker` and `topic` compute what is in effect;
`describe` and `alter` answer Kafka's config requests; `load` reads server.properties and the environment; `document`
writes the reference page.
"""
