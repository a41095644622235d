nightly:
  cron.present:
    - name: /usr/local/bin/backup
    - user: root
    - minute: random
    - hour: 3
    - identifier: nightly
