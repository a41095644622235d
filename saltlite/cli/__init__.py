"""The `saltlite` command: its grammar, its verbs, its output and its exit codes.

It reads a command line, asks the master through `saltlite.client` and shows the answer; the master decides. A module is
imported only when it is needed: publishing a job loads no verb, no outputter and no YAML.
"""
