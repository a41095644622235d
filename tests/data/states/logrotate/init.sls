logrotate:
  ini.options_present:
    - name: {{ pillar.root }}/etc/app.ini
    - separator: '='
    - sections:
        rotate:
          weekly: 'true'
          keep: '4'
    - require:
      - file: logrotate-file
logrotate-file:
  file.touch:
    - name: {{ pillar.root }}/etc/app.ini
    - makedirs: True
    - unless: test -e {{ pillar.root }}/etc/app.ini
