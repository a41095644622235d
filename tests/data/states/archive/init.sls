archive-packed:
  cmd.run:
    - name: mkdir -p src && echo 1 > src/version && tar czf src.tar.gz src
    - cwd: {{ pillar.root }}/srv
    - creates: {{ pillar.root }}/srv/src.tar.gz
    - require:
      - sls: app
archive-unpacked:
  archive.extracted:
    - name: {{ pillar.root }}/srv/unpacked
    - source: {{ pillar.root }}/srv/src.tar.gz
    - enforce_toplevel: False
    - require:
      - cmd: archive-packed
include:
  - app
