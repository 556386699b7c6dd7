"""One small file per API. A handler translates the request, calls a lower layer, and translates the result."""
