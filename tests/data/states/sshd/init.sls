{%- set conf = pillar.root ~ '/etc/ssh/sshd_config' %}
sshd-config:
  file.managed:
    - name: {{ conf }}
    - makedirs: True
    - replace: False
    - contents: |
        Port 22
        #PermitRootLogin yes
sshd-root:
  file.replace:
    - name: {{ conf }}
    - pattern: '^#?PermitRootLogin.*$'
    - repl: PermitRootLogin no
    - append_if_not_found: True
    - require:
      - file: sshd-config
sshd-options:
  file.keyvalue:
    - name: {{ conf }}
    - key_values:
        Port: '2222'
        UseDNS: 'no'
    - separator: ' '
    - uncomment: '#'
    - append_if_not_found: True
    - require:
      - file: sshd-root
