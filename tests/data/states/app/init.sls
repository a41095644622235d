app-folder:
  file.directory:
    - name: {{ pillar.root }}/srv/app
    - makedirs: True
    - mode: '0755'
app-settings:
  file.serialize:
    - name: {{ pillar.root }}/srv/app/settings.json
    - serializer: json
    - dataset: {{ pillar['app'] | json }}
    - require:
      - file: app-folder
app-current:
  file.symlink:
    - name: {{ pillar.root }}/srv/current
    - target: {{ pillar.root }}/srv/app
    - require:
      - file: app-settings
app-migrate:
  cmd.script:
    - source: salt://app/migrate.sh
    - template: jinja
    - args: '1.2'
    - cwd: {{ pillar.root }}/srv/app
    - creates: {{ pillar.root }}/srv/app/migrated
