sudoers-parts:
  file.accumulated:
    - filename: {{ pillar.root }}/etc/sudoers
    - text: ['%admin ALL=(ALL) ALL', 'deploy ALL=(ALL) NOPASSWD: ALL']
    - require_in:
      - file: sudoers
sudoers:
  file.managed:
    - name: {{ pillar.root }}/etc/sudoers
    - makedirs: True
    - source: salt://sudoers/sudoers.jinja
    - template: jinja
    - check_cmd: test -s
