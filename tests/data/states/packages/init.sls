tools:
  pkg.installed:
    - pkgs:
      - coreutils
      - tar
    - refresh: False
missing-tool:
  pkg.removed:
    - name: no-such-package
