{%- from 'lib/macros.jinja' import conf with context %}
{{ conf(pillar['root'] ~ '/etc/motd', 'Welcome to ' ~ grains['id'] ~ '\n') }}
