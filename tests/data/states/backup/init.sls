backup-check:
  cmd.run:
    - name: 'false'
    - check_cmd: ['true']
backup-parallel:
  cmd.run:
    - names: [sleep 0.01, 'true']
    - parallel: True
backup-tries:
  cmd.run:
    - name: test -e {{ pillar.root }}/tried || ! touch {{ pillar.root }}/tried
    - retry:
        attempts: 3
        interval: 1
