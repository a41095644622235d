{%- for name, value in {'vm.swappiness': 10, 'net.ipv4.ip_forward': 0}.items() %}
{{ name }}:
  sysctl.present:
    - value: {{ value }}
    - config: {{ pillar.root }}/etc/sysctl.d/99-salt.conf
{%- endfor %}
