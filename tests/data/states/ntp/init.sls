ntp-servers:
  file.blockreplace:
    - name: {{ pillar.root }}/etc/ntp.conf
    - marker_start: '# managed begin'
    - marker_end: '# managed end'
    - append_if_not_found: True
    - content: |
        server 0.pool.example
        server 1.pool.example
    - require:
      - file: ntp-file
ntp-file:
  file.managed:
    - name: {{ pillar.root }}/etc/ntp.conf
    - makedirs: True
    - replace: False
    - contents: 'driftfile /var/lib/ntp/drift'
