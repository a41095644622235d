{%- for host in range(1, 4) %}
db{{ host }}:
  host.present:
    - ip: 10.0.0.{{ host }}
    - names: [db{{ host }}.example, db{{ host }}]
{%- endfor %}
