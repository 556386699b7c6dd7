"""One small file per API: translate the request, make one call to a lower layer, translate the result back."""
