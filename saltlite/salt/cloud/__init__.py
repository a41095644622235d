"""`salt.cloud`: the package of drivers. Its `libcloudfuncs` is `saltlite.cloud.api.libcloudfuncs`."""
