{%- from 'nginx/map.jinja' import nginx with context %}
nginx-config:
  file.managed:
    - name: {{ pillar.root }}/etc/nginx/nginx.conf
    - source: salt://nginx/files/nginx.conf.jinja
    - template: jinja
    - makedirs: True
    - mode: '0644'
    - context:
        nginx: {{ nginx | json }}
