{%- from 'nginx/map.jinja' import nginx with context %}
include:
  - nginx.config
nginx-sites:
  file.recurse:
    - name: {{ pillar.root }}/etc/nginx/{{ nginx.sites }}
    - source: salt://nginx/files/sites
    - clean: True
    - file_mode: '0640'
    - dir_mode: '0750'
    - require:
      - file: nginx-config
nginx-reload:
  cmd.run:
    - name: echo reloaded >> {{ pillar.root }}/nginx.log
    - onchanges:
      - file: nginx-config
      - file: nginx-sites
