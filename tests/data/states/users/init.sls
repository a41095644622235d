{%- for name, user in salt['pillar.get']('users', {}).items() %}
{{ name }}-group:
  group.present:
    - name: {{ name }}
    - gid: {{ user.uid }}
{{ name }}-user:
  user.present:
    - name: {{ name }}
    - uid: {{ user.uid }}
    - gid: {{ user.uid }}
    - shell: {{ user.shell | default('/bin/bash') }}
    - require:
      - group: {{ name }}-group
{%- endfor %}
