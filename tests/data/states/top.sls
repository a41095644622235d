base:
  '*':
    - motd
  'os_family:{{ grains.os_family }}':
    - match: grain
    - nginx
    - sshd
    - ntp
    - logrotate
  'role:web':
    - match: pillar
    - app
    - app.tls
    - packages
    - environment
    - archive
    - sudoers
    - backup
    - rendered.python
    - rendered.json
    - custom
    - cleanup
    - notify
